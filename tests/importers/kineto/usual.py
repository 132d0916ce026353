"""Events that the compiled scanner takes apart, and a file's rows with and without it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holter.importers.kineto import chrome_json
from holter.importers.report import Report
from holter.importers.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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
    {"cat": "Operator", "name": "aten::add", "tid": "2", "args": {"Input Dims": [[1]], "Device": 1}},
    {"cat": "Operator", "name": "of a thread with a name", "tid": "main", "args": {}},
    {"cat": "Runtime", "name": "cudaLaunchKernel", "tid": "2", "args": {"correlation": 9, "cbid": 211}},
    {
        "cat": "Kernel",
        "name": "gemm",
        "pid": 0,
        "tid": "stream 7",
        "args": {"device": 0, "stream": 7, "correlation": 9, "queued": 0, "grid": [1, 2, 3]},
    },
    {"cat": "Kernel", "name": "told otherwise", "tid": "stream 8", "args": {"device": 0, "stream": 7}},
    {"cat": "Kernel", "name": "told only here", "tid": "stream 8", "args": {"device": 0}},
    {"cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "tid": "stream 7", "args": {"bytes": 10}},
    {"cat": "Memset", "name": "Memset (Device)", "tid": "stream 7", "args": {"stream": 7, "bytes": 8}},
    {"ph": "f", "cat": "async", "name": "launch", "id": 9, "tid": "stream 7"},
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
