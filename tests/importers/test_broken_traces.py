"""Traces that are cut, spoiled or hostile: what can be read is, the rest is said, nothing is unbounded."""

from __future__ import annotations

import contextlib
import gzip
import json
import resource
import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holter.importers import Report, UnreadableError
from holter.importers.kineto import chrome_json, scanning, trace_events
from holter.importers.trace import Trace


def operator(n, **more):
    return {"ph": "X", "cat": "cpu_op", "name": f"op{n}", "pid": 1, "tid": 1, "ts": n * 10, "dur": 5, **more}


def text(events):
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def names(tables):
    return tables.table("operators")["name"].tolist()


def staged(path):
    """Read a trace without writing it; returns it and the times and names of its operators."""
    trace = Trace(path, Report())
    with contextlib.closing(trace.staging):
        chrome_json.read(path, trace)
        rows = []
        for part in trace.staging.read("operators"):
            codes, values = part["name"]
            rows += zip(part["time"].tolist(), [values[code] for code in codes], strict=True)
    return trace, rows


def only(report):
    (counts,) = report.skipped.values()
    return dict(counts)


@pytest.mark.parametrize("compiled", ["0", "1"])
def test_an_odd_event_costs_no_other_its_row(written, imported, monkeypatch, compiled):
    """An argument of another type, a begin where slices are usual, no category: all are read."""
    call = {"cat": "cuda_runtime", "name": "cudaFree", "args": {"correlation": "8"}}
    no_category = {"ph": "X", "name": "none", "pid": 1, "tid": 2, "ts": 11, "dur": 1}
    odd = [operator(1, **call), operator(2, ph="B"), operator(3, ph="E", name="op2"), no_category]
    monkeypatch.setattr(trace_events, "BLOCK", 1 << 12)
    monkeypatch.setenv("HOLTER_COMPILE", compiled)
    scanning._library.cache_clear()
    tables, report = imported(written(([operator(n) for n in range(40)] + odd) * 3))
    scanning._library.cache_clear()
    found = Counter(names(tables))
    assert report.events == 3 * 44
    assert not report.skipped
    assert found == Counter({f"op{n}": 6 if n == 2 else 3 for n in range(40)}) + Counter(cudaFree=3, none=3)


def test_cut_off(written, imported):
    whole = text([operator(n) for n in range(20)])
    tables, report = imported(written(whole[: len(whole) // 2]))
    assert names(tables) == [f"op{n}" for n in range(len(tables.table("operators")))]
    assert len(tables.table("operators")) in (9, 10)
    assert only(report) == {"an event that does not end": 1, "the file is cut off before its events end": 1}


def test_cut_off_compressed(tmp_path, imported):
    # Text that does not compress: what is cut is half of the events.
    events = [operator(n, args={"Call stack": str(hash(str(n)) ** 3)}) for n in range(20_000)]
    path = tmp_path / "t.json.gz"
    whole = gzip.compress(text(events))
    path.write_bytes(whole[: len(whole) // 2])
    tables, report = imported(path)
    assert 5000 < len(tables.table("operators")) < 15_000
    assert "the compressed file is cut off" in only(report)


def test_spoiled_in_the_middle_of_compressed_data(tmp_path, imported):
    events = [operator(n, args={"Call stack": str(hash(str(n)) ** 3)}) for n in range(20_000)]
    whole = bytearray(gzip.compress(text(events)))
    whole[len(whole) // 2 : len(whole) // 2 + 400] = bytes(400)
    path = tmp_path / "t.json.gz"
    path.write_bytes(whole)
    tables, report = imported(path)
    assert len(tables.table("operators")) > 5000
    assert report.skipped


OP2 = b'"cat": "cpu_op", "name": "op2"'


@pytest.mark.parametrize(
    ("old", "new", "lost", "said"),
    [
        (b'"op1"', b'"op\xff1"', 0, "text that is not UTF-8, replaced"),
        (b'"op1"', b'"op\x011"', 0, None),
        (b'"dur": 5}, {"ph": "X", ' + OP2, b'"dur": 5},, {"ph": "X", ' + OP2, 0, None),
        (b'"ts": 20, "dur": 5}', b'"ts": 20, "dur": 5,}', 0, None),
        (b'"ts": 20, "dur": 5}', b'"ts": 20, "dur": NaN}', 1, "a time outside of all clocks"),
        (b'"ts": 20,', b'"ts": 1' + b"0" * 30 + b",", 1, "a time outside of all clocks"),
        (b'"ts": 20,', b'"ts": 1' + b"0" * 9000 + b",", 1, "an event that is no JSON object"),
        (b'"ts": 20, "dur": 5', b'"ts": "20.5", "dur": "5"', 0, None),
        (b'"ts": 20, "dur": 5', b'"ts": 20, "dur": 1e15', 1, "a time outside of all clocks"),
        (b'"ts": 20,', b'"ts": "soon",', 1, "a time outside of all clocks"),
        (b'"ts": 20,', b'"ts": null,', 1, "an event without a time"),
        (b'"dur": 5}, {"ph": "X", ' + OP2, b'"dur": -5}, {"ph": "X", ' + OP2, 0, "a duration below 0"),
        (b'"name": "op2"', b'"name": op2', 1, "an event that is no JSON object"),
        (b'"name": "op2"', b'"name": 2', 0, None),
        (b'"pid": 1, "tid": 1, "ts": 20', b'"pid": "x", "tid": [1], "ts": 20', 0, None),
        (b'{"ph": "X", ' + OP2, b'17, null, {"ph": "X", ' + OP2, 0, "an event that is no JSON object"),
    ],
)  # fmt: skip
def test_one_bad_event_costs_itself(old, new, lost, said, written, imported):
    whole = text([operator(n) for n in range(5)])
    assert old in whole
    tables, report = imported(written(whole.replace(old, new)))
    assert len(tables.table("operators")) == 5 - lost
    told = " ".join(only(report)) if report.skipped else ""
    assert (said in told) if said else not told


def test_no_events_and_no_trace(written, imported):
    tables, report = imported(written(b'{"schemaVersion": 1, "traceEvents": []}'))
    assert (report.events, dict(report.rows), report.skipped) == (0, {}, {})
    assert len(tables.table("kernels")) == 0
    for content in (b"", b"{}", b"[1, 2", b'{"a": 1}', b"\x1f\x8b", b"text"):
        path = written(content)
        why = "no JSON object" if content == b"[1, 2" else r"trace\.json"
        with pytest.raises(UnreadableError, match=why):
            imported(path)


def test_a_mark_of_the_coding_costs_nothing(written, imported):
    plain = json.dumps({"distributedInfo": {"rank": 5}, "traceEvents": [operator(1)]})
    path = written(b"\xef\xbb\xbf" + plain.encode(), "t.json")
    _, report = imported(path)
    assert (report.ranks, report.skipped) == ({str(path): 5}, {})
    with pytest.raises(UnreadableError, match="UTF-16"):
        imported(written(plain.encode("utf-16"), "u.json"))


@pytest.mark.parametrize("whole", [text([operator(1)]), json.dumps([operator(1)]).encode()])
def test_what_stands_behind_the_events_is_told(whole, written, imported):
    tables, report = imported(written(whole + b"\n" + whole))
    assert names(tables) == ["op1"]
    assert only(report) == {"text behind the end of the events": 1}


def test_a_bad_file_among_good_ones(written, imported, tmp_path):
    written(text([operator(1)]), "rank0.json")
    written(b'{"nothing": 1}', "rank1.json")
    written(text([operator(2)]), "rank2.json")
    tables, report = imported(tmp_path)
    assert sorted(report.ranks.values()) == [0, 2]
    assert names(tables) == ["op1", "op2"]
    assert [file for file in report.skipped if file.endswith("rank1.json")]


def test_deep_nesting_is_no_harm(written, imported):
    deep = b"[" * 200_000 + b"]" * 200_000
    events = [operator(1), operator(2)]
    whole = text(events).replace(b'"dur": 5}]', b'"dur": 5, "args": {"x": ' + deep + b"}}]")
    tables, report = imported(written(whole))
    assert names(tables) == ["op1"]
    assert report.skipped


def test_a_bomb_is_refused_early(tmp_path, imported):
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [')
        for _ in range(400):
            file.write(b" " * (1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    with pytest.raises(UnreadableError, match="repetitive"):
        imported(path)
    assert time.process_time() - started < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


def test_an_endless_event_is_bounded(written, imported, monkeypatch):
    monkeypatch.setattr(trace_events, "LONGEST_EVENT", 1 << 20)
    monkeypatch.setattr(trace_events, "BLOCK", 1 << 16)
    whole = text([operator(1)])[:-2] + b', {"ph": "X", "name": "' + b"x" * (3 << 20)
    tables, report = imported(written(whole))
    assert names(tables) == ["op1"]
    assert report.skipped


def test_memory_does_not_grow_with_the_file(tmp_path, imported):
    def peak(events: int) -> int:
        path = tmp_path / f"t{events}.json.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(b'{"traceEvents": [')
            for n in range(0, events, 1000):
                file.write(
                    json.dumps([operator(n + k) | {"name": f"op{k}"} for k in range(1000)])[1:-1].encode()
                )
                file.write(b"," if n + 1000 < events else b"]}")
        code = (
            "import sys, resource\n"
            "from pathlib import Path\n"
            "from holter.importers import import_job\n"
            "import_job([Path(sys.argv[1])], sys.argv[2], 'job', now_ns=0)\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, path, tmp_path / f"store{events}"],
            check=True,
            capture_output=True,
            text=True,
        )
        return int(done.stdout)

    small, large = peak(20_000), peak(160_000)
    assert large < small + 40_000, (small, large)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
WORDS = ["X", "B", "E", "s", "t", "f", "M", "C", "i", "[memory]", "process_name", "thread_name", "fwdbwd"]
CATEGORIES = ["cpu_op", "kernel", "cuda_runtime", "gpu_memcpy", "python_function", "user_annotation"]
ARGS = ["device", "stream", "correlation", "bytes", "name", "dtype", "sort_index", "Input Dims"]
ARGS += ["In msg nelems", "Collective name", "Total Allocated"]
EVENTS = st.dictionaries(
    st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "s", "bp", "args"]),
    SCALARS
    | st.sampled_from(WORDS + CATEGORIES)
    | st.dictionaries(st.sampled_from(ARGS), SCALARS | st.lists(SCALARS, max_size=3), max_size=4),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=st.lists(EVENTS | SCALARS, max_size=12), cut=st.integers(0, 400))
def test_whatever_is_in_it_the_good_events_are_read(events, cut, written):
    good = [operator(1), operator(2)]
    trace, rows = staged(written(text([good[0], *events, good[1]])))
    assert {"op1", "op2"} <= {name for _, name in rows}
    assert trace.events <= len(events) + 2
    # Cut off anywhere it still reads, or is refused with a reason.
    whole = text([good[0], *events])
    with contextlib.suppress(UnreadableError):
        staged(written(whole[: max(0, len(whole) - cut)]))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    times=st.lists(st.integers(0, 10**6), min_size=1, max_size=200),
    block=st.integers(16, 3000),
    compressed=st.booleans(),
)
def test_blocks_of_any_size_give_the_same(times, block, compressed, written):
    events = [operator(n, args={"Call stack": "}, {" * (n % 3)}) | {"ts": at} for n, at in enumerate(times)]
    path = written(text(events), "t.json.gz" if compressed else "t.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_events, "BLOCK", block)
        trace, rows = staged(path)
    assert trace.skipped == {}
    assert sorted(rows) == sorted((at * 1000, f"op{n}") for n, at in enumerate(times))


def test_a_fault_of_ours_is_told_as_such_and_costs_events_of_one_kind_alone(written, imported, monkeypatch):
    """What no test foresees must not be laid at the file's door."""

    def broken(*_):
        raise KeyError("grid")

    monkeypatch.setattr(scanning, "_library", lambda: None)
    monkeypatch.setitem(chrome_json._READERS, "kernel", broken)
    slices = [
        {"ph": "X", "cat": cat, "name": "a", "pid": 1, "tid": 1, "ts": at, "dur": 1, "args": {}}
        for at in range(40)
        for cat in ("kernel", "cpu_op")
    ]
    _, report = imported(written(json.dumps({"traceEvents": slices}).encode()))
    assert report.rows["operators"] == 40
    ((why, times),) = only(report).items()
    assert times == 40
    assert why.startswith("events of 'kernel', by a fault of holter's own, please report it: KeyError in ")
    assert "'grid'" in why
