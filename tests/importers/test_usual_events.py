"""What the compiled scanner takes apart gives the rows that decoding each event gives."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from holter.importers.kineto import chrome_json, scanning
from holter.importers.report import Report
from holter.importers.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

COMMON = {"ph": "X", "pid": 1, "tid": 2, "ts": 1_712_195_495_519_689.064, "dur": 1.5}
EVENTS: list[dict[str, Any]] = [
    {
        "cat": "cpu_op",
        "name": "aten::mm",
        "args": {"Input Dims": [[2, 3], []], "Ev Idx": 5, "Input type": ["a"]},
    },
    {"cat": "cpu_op", "name": 'a "quoted" \u00fc\U0001f600 name', "ts": 3},
    {"cat": "cpu_op", "name": "ProfilerStep#7", "args": {}},
    {"cat": "python_function", "name": "nn.Module: Linear_0", "args": {"Python parent id": None}},
    {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 7, "cbid": 211}},
    {"cat": "cuda_runtime", "name": "cudaStreamSynchronize", "args": {"correlation": 2**62}},
    {"cat": "hip_runtime", "name": "hipFree"},
    {
        "cat": "kernel",
        "name": "gemm",
        "args": {"device": 0, "stream": 7, "correlation": 7, "grid": [1, 2, 3], "block": [4]},
    },
    {"cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32", "pid": 3, "tid": 20},
    {
        "cat": "kernel",
        "name": "ncclDevKernel_AllGather",
        "args": {"Collective name": "allgather", "Out msg nelems": 10, "dtype": "Float", "Group size": 2},
    },
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "args": {"bytes": 10, "device": "1"}},
    {"cat": "gpu_memset", "name": "Memset (Device)", "args": {"size": 12, "stream": 3}},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 7},
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "args": {"Device Type": 1, "Bytes": 5}},
    {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "args": {"Total Allocated": 5, "Device Id": 0},
    },
    {"ph": "i", "cat": "cpu_instant_event", "name": "another", "args": {}},
    {"ph": "M", "name": "thread_name", "args": {"name": "main"}},
    {"cat": "cpu_op", "name": "negative", "dur": -3},
    {"cat": "cpu_op", "name": "whole", "ts": 17, "dur": None},
    {"cat": "cpu_op", "name": None, "ts": "12.5"},
    {"cat": "cpu_op", "name": "timeless", "ts": None},
    {"cat": "cuda_runtime", "name": "cudaFree", "args": {"correlation": "8"}},
    {"cat": "unheard_of", "name": "x", "args": {"a": {"b": [1, "}"]}}},
    {"name": "none", "tid": "main"},
    {"ph": "B", "cat": "cpu_op", "name": "open"},
    {"ph": "E", "cat": "cpu_op", "name": "open"},
]


@pytest.fixture(autouse=True)
def compiler() -> None:
    scanning._library.cache_clear()
    if not scanning.compiled():
        pytest.skip("what takes events apart was not compiled here: `python hatch_build.py` says why")


def read(path: Path) -> tuple[Counter[Any], dict[str, int], dict[str, int], int]:
    """Return the rows of a file, what was skipped and left out, and how many events there were."""
    report = Report()
    trace = Trace(path, report)
    chrome_json.read(path, trace)
    rows: Counter[Any] = Counter()
    for table in trace.staging.rows:
        for part in trace.staging.read(table):
            columns = [
                [c[1][code] for code in c[0].tolist()] if isinstance(c, tuple) else c.tolist()
                for _, c in sorted(part.items())
            ]
            rows.update((table, *map(repr, row)) for row in zip(*columns, strict=True))
    trace.staging.close()
    return rows, dict(trace.skipped), dict(trace.omitted), trace.events


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    taken = read(path)
    with monkeypatch.context() as without:
        without.setattr(chrome_json, "_usual", lambda *_: None)
        return [taken, read(path)]


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
