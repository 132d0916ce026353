"""Damaged and hostile files of every format: whatever is wrong, there is a sentence and no traceback."""

from __future__ import annotations

import gzip
import json
import random
import re
import sqlite3

import pytest

from holter.importers import UnreadableError
from holter.views.document.trace_description import describe_trace, is_trace

TOO_MUCH = (
    b"9" * 40, b"-9223372036854775809", b"1e400", b"1e-400", b"-1", b"null", b"true", b'"x"', b"[]", b"{}",
    b"[[[[[[[[]]]]]]]]", b'"\xff\xfe"', b'"\\ud800"', b"18446744073709551615", b"0.0000000001", b"NaN", b"",
)  # fmt: skip
"""What may stand where a number or a text was."""


GIVEN = (
    "mindinsight/*.json",
    "param/dlrm_8rank/worker3*",
    "hta/amd*.gz",
    "catapult/flow*",
    "pipit/*.sqlite",
    "xprof/*.pb",
)


def kineto() -> bytes:
    events: list[dict] = [
        {"ph": "M", "name": "process_name", "pid": 1, "ts": 0, "args": {"name": "python", "labels": "GPU 0"}}
    ]
    for i in range(70):
        at = 100.5 + 20 * i
        host = {"pid": 1, "tid": 7, "ph": "X"}
        shape = {"Input Dims": [[4, 8], [8, 2]], "Input type": ["float", "float"], "External id": i}
        if i % 10 == 0:
            name = f"ProfilerStep#{i // 10}"
            events.append({**host, "cat": "user_annotation", "name": name, "ts": at, "dur": 199})
        events.append({**host, "cat": "cpu_op", "name": "aten::mm", "ts": at, "dur": 12, "args": shape})
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": i + 1}}
        events.append({**host, **call, "ts": at + 1, "dur": 4})
        ran = {"device": 0, "stream": 7, "correlation": i + 1, "grid": [1, 1, 1]}
        kernel = {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": at + 8, "dur": 9}
        events.append({**kernel, "args": ran})
        if i % 7 == 0:
            nccl = {"Collective name": "allreduce", "In msg nelems": 64, "Group size": 2, "dtype": "Float"}
            name = "ncclDevKernel_AllReduce"
            events.append({**kernel, "name": name, "args": {**ran, **nccl, "correlation": 0}})
            copy = {**kernel, "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)"}
            events.append({**copy, "args": {**ran, "bytes": 4096}})
            events.append(
                {"ph": "s", "id": i, "pid": 1, "tid": 7, "ts": at, "cat": "fwdbwd", "name": "fwdbwd"}
            )
            events.append(
                {"ph": "f", "id": i, "pid": 1, "tid": 8, "ts": at + 9, "cat": "fwdbwd", "name": "fwdbwd"}
            )
            memory = {"Device Type": 1, "Device Id": 0, "Total Allocated": 5, "Total Reserved": 9}
            events.append({"ph": "i", "name": "[memory]", "pid": 1, "tid": 7, "ts": at, "args": memory})
            events.append({"ph": "C", "name": "queue", "pid": 1, "ts": at, "args": {"length": i}})
    header = {
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
        "distributedInfo": {"rank": 0, "world_size": 2}, "baseTimeNanoseconds": 17 * 10**17,
    }  # fmt: skip
    return json.dumps({**header, "traceEvents": events}).encode()


def spoiled(text: bytes, chance: random.Random) -> bytes:
    """Spoil a text in one to four places, as bad writers and bad disks do."""
    for _ in range(chance.randint(1, 4)):
        kind = chance.randrange(6)
        at = chance.randrange(max(len(text), 1))
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]
        elif kind == 2:
            text = text[:at] + text[at + chance.randint(1, 300) :]
        elif kind == 3:
            text = text[:at] + text[chance.randrange(max(len(text), 1)) :][:500] + text[at:]
        elif places := [m.span() for m in re.finditer(rb'(?<=: )[-\d."\w]+', text)]:
            begin, end = chance.choice(places)
            text = text[:begin] + chance.choice(TOO_MUCH) + text[end:]
    return text


def imports_or_says_why(path, imported) -> None:
    try:
        trial, report = imported(path)
    except UnreadableError as error:
        said = str(error)
    else:
        said = "it is read"
        assert report.files
        said += str(report.skipped)
        judged(trial, report)
    assert len(said) >= 10
    assert "fault of holter's own" not in said


def judged(trial, report) -> None:
    trial.folder.update(imported={"files": report.files, "facts": report.facts}, end=1, start=0)
    if is_trace(trial):
        json.dumps(describe_trace(trial, in_detail=True), allow_nan=False)


@pytest.mark.parametrize("seed", range(60))
def test_json(seed, imported, tmp_path):
    chance = random.Random(seed)
    text = spoiled(kineto(), chance)
    path = tmp_path / "worker0.json"
    if seed % 3 == 0:
        path = tmp_path / "worker0.json.gz"
        text = gzip.compress(text)
        if seed % 2:
            at = chance.randrange(20, len(text))
            text = text[:at] + bytes([text[at] ^ 255]) + text[at + 1 :]
    path.write_bytes(text)
    imports_or_says_why(path, imported)


@pytest.mark.parametrize("key", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id"])
@pytest.mark.parametrize("value", TOO_MUCH)
def test_any_value_in_any_field(key, value, written, imported):
    plain = kineto()
    place = re.compile(rb'("%s": )("[^"]*"|[-\d.]+)' % key.encode())
    text = place.sub(lambda found: found[1] + value, plain, count=9)
    imports_or_says_why(written(text), imported)


@pytest.mark.parametrize("seed", range(12))
def test_databases(seed, imported, tmp_path):
    chance = random.Random(seed)
    path = tmp_path / "run.sqlite"
    database = sqlite3.connect(path)
    odd = [None, -(2**63), 2**63 - 1, 1.5, "text", b"\xff\x00", 0, 7]
    database.execute("CREATE TABLE StringIds (id, value)")
    known = [(1, "cudaLaunchKernel"), (2, b"\xff"), (3, 5)]
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", known)
    columns = "start end deviceId streamId correlationId demangledName nameId globalTid gridX bytes copyKind"
    columns = [*columns.split(), "text", "textId", "eventType", "globalPid"]
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME",
                  "NVTX_EVENTS", "OSRT_API"):  # fmt: skip
        there = [c for c in columns if chance.random() < 0.8]
        if not there:
            continue
        database.execute(f"CREATE TABLE {table} ({', '.join(there)})")
        for i in range(30):
            known = {
                "start": 1000 * i,
                "end": 1000 * i + 500,
                "demangledName": 1,
                "nameId": 1,
                "eventType": 59,
            }
            row = [chance.choice(odd) if chance.random() < 0.2 else known.get(c, i) for c in there]
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    database.commit()
    database.close()
    imports_or_says_why(path, imported)


@pytest.mark.parametrize("seed", range(12))
def test_real_files(seed, data, imported, tmp_path):
    chance = random.Random(seed)
    given = next((data / "traces").glob(GIVEN[seed % len(GIVEN)]))
    content = given.read_bytes()
    if given.suffix == ".gz":
        content = gzip.compress(spoiled(gzip.decompress(content), chance), 1)
    else:
        content = spoiled(content, chance)
    (tmp_path / given.name).write_bytes(content)
    imports_or_says_why(tmp_path / given.name, imported)
