"""What the compiled scanner takes apart gives the rows that decoding each event gives."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from tests.importers.kineto.usual import COMMON, EVENTS, both, read

from holter.importers.kineto import scanning

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def compiler() -> None:
    scanning._library.cache_clear()
    if not scanning.compiled():
        pytest.skip("what takes events apart was not compiled here: `python hatch_build.py` says why")


@pytest.mark.parametrize("indent", [None, 1])
def test_rows_are_those_of_decoded_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None
) -> None:
    monkeypatch.setattr("holter.importers.kineto.trace_events.BLOCK", 1 << 12)
    path = tmp_path / "trace.json"
    events = [COMMON | event for event in EVENTS * 9]
    path.write_text(json.dumps({"traceEvents": events}, indent=indent))
    taken, decoded = both(path, monkeypatch)
    assert taken == decoded
    assert taken[3] == len(events)
    assert any(row[0] == "kernels" and "'communication'" in row for row in taken[0])


def test_damage_anywhere_is_borne_as_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes changed or cut: nothing crashes, and what no byte was changed of is read the same."""
    monkeypatch.setattr("holter.importers.kineto.trace_events.BLOCK", 1 << 11)
    whole = json.dumps({"traceEvents": [COMMON | event for event in EVENTS * 2]}).encode()
    chance = random.Random(7)
    path = tmp_path / "trace.json"
    for _ in range(60):
        text = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            text[chance.randrange(20, len(text))] = chance.choice(b'"\\{}[],:0-.e \x01\xff')
        path.write_bytes(text[: chance.randrange(len(text) // 2, len(text))])
        (taken, *_), (decoded, *_) = both(path, monkeypatch)
        # An argument that is dropped may be damaged unseen: then there is more, never less.
        assert sum((decoded - taken).values()) <= 8, path.read_bytes()


def test_numbers_of_any_length_are_those_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    times = [
        "0",
        "0.5",
        "-1",
        "12.",
        "01",
        "1e3",
        "9007199254740993.5",
        "0.1234567890123456789012345",
        "1" * 30,
    ]
    times += [f"{chance.randrange(10**18)}.{chance.randrange(10**9)}" for _ in range(50)]
    path = tmp_path / "trace.json"
    for time in times:
        event = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"dur":1,"ts":'
        path.write_text(f"[{event}{time}}}]")
        taken, decoded = both(path, monkeypatch)
        assert taken == decoded, time


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLTER_COMPILE", "0")
    scanning._library.cache_clear()
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([COMMON | EVENTS[0]]))
    monkeypatch.setattr(scanning.Scanner, "scan", None)
    assert sum(read(path)[0].values()) == 1
