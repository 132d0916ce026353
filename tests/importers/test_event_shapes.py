"""Events decoded by the types of their categories give the rows that events of no known shape give."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from holter.importers.kineto import chrome_json
from holter.importers.kineto.event_decoding import BlockDecoder
from holter.importers.kineto.event_shapes import shape
from holter.importers.report import Report
from holter.importers.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

EVENTS: list[dict[str, Any]] = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1.5, "dur": 2, "args": {"Input Dims": [[2, 3]]}},
    {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "ts": 2,
        "dur": 1,
        "args": {"correlation": 7},
    },
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 4, "dur": 9, "args": {"device": 0, "correlation": 7}},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 2, "id": 7},
    {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "ts": 1, "dur": 4},
]


def block(events: list[dict[str, Any]]) -> memoryview:
    return memoryview(bytearray(json.dumps([{"pid": 1, "tid": 2, **event} for event in events]).encode()))


def test_the_second_block_is_decoded_by_category() -> None:
    blocks = BlockDecoder(shape)
    blocks.decode(block(EVENTS))
    operator, call, kernel, arrow, _ = blocks.decode(block(EVENTS))
    assert bytes(operator.args.dims) == b"[[2, 3]]"  # type: ignore[attr-defined]
    assert call.args.correlation == 7  # type: ignore[attr-defined]
    assert [event.kind for event in (operator, call, kernel, arrow)] == ["X", "X", "X", "s"]


def test_an_odd_event_costs_no_other_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument of another type, a begin where slices are usual, no category: all are read as before."""
    odd = [
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaFree",
            "ts": 9,
            "dur": 1,
            "args": {"correlation": "8"},
        },
        {"ph": "B", "cat": "cpu_op", "name": "open", "ts": 10},
        {"ph": "E", "cat": "cpu_op", "name": "open", "ts": 12},
        {"ph": "X", "name": "none", "ts": 11, "dur": 1},
    ]
    monkeypatch.setattr("holter.importers.kineto.trace_events.BLOCK", 1 << 12)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": [{"pid": 1, "tid": 2, **e} for e in (EVENTS * 40 + odd) * 3]}))
    rows = []
    for by in (shape, None):
        monkeypatch.setattr(chrome_json, "shape", by)
        trace = Trace(path, Report())
        chrome_json.read(path, trace)
        read = {t: [*trace.staging.read(t)] for t in trace.staging.rows}
        rows.append(
            {
                (table, name): [
                    column[1][code] if isinstance(column, tuple) else code
                    for part in parts
                    for column in [part[name]]
                    for code in (column[0] if isinstance(column, tuple) else column).tolist()
                ]
                for table, parts in read.items()
                for name in parts[0]
            }
        )
        assert trace.skipped == Counter()
    assert {key: sorted(values) for key, values in rows[0].items()} == {
        key: sorted(values) for key, values in rows[1].items()
    }
    assert len(rows[0]["operators", "name"]) == 3 * (40 * 2 + 3)
