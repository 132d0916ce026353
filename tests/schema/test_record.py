"""The record of the spool is declared once: struct, numpy and C agree on its layout."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

from holter.agent.drain import segments
from holter.schema import record

ROOT = Path(__file__).parents[2]


def test_the_c_header_is_current():
    spec = importlib.util.spec_from_file_location("layout", ROOT / "scripts" / "layout.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    committed = (ROOT / "src/holter/recorder/native/layout.h").read_text()
    assert committed == module.header(), "run: python scripts/layout.py > src/holter/recorder/native/layout.h"


def test_a_packed_record_reads_back_field_by_field():
    values = (1, 2, 3.5, -1, 0xABCD, 2, 17)
    step, name, mode, phase = values[3:]
    tail = (
        (step & record.STEP_MASK) << record.STEP_SHIFT
        | name << record.NAME_SHIFT
        | mode << record.MODE_SHIFT
        | phase << record.PHASE_SHIFT
    )
    packed = record.PACKED.pack(*values[:3], tail)
    assert record.RECORD.unpack(packed) == values
    assert segments.np.frombuffer(packed, segments.RECORD)[0].item() == values
    assert packed[-1] == phase  # the last byte says that a record is complete
    assert struct.calcsize("<qqdiHBB") == record.RECORD_SIZE == segments.RECORD.itemsize
