"""Traces of Nsight Systems and XPlane: the given ones, some made here, and damaged ones."""

from __future__ import annotations

import json
import sqlite3
import struct

import pytest

from holter.importers import UnreadableError
from holter.schema import protobuf
from holter.schema.varint import BadMessageError


def rows(tables, table, **where):
    condition = " AND ".join(f"{name} = '{value}'" for name, value in where.items()) or None
    return list(tables.table(table, where=condition).to_rows())


def test_nsight(data, imported):
    path = data / "traces/pipit/saxpy-mpi-cuda.nsys.sqlite"
    tables, report = imported(path)
    assert report.ranks == {str(path): 0}
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    (copied,) = database.execute("SELECT sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY").fetchone()
    (ran,) = database.execute("SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    database.close()
    assert int(tables.table("memory_operations")["bytes"].sum()) == copied
    assert int(tables.table("kernels")["duration"].sum()) == ran
    joined = tables.sql("SELECT count(*) AS n FROM kernels JOIN launches USING (correlation)")
    assert joined["n"].tolist() == [5]
    assert len(rows(tables, "operators", name="saxpy")) == 5
    assert rows(tables, "operators", name="MPI_Send")


def test_a_database_made_here(tmp_path, imported):
    path = tmp_path / "run.sqlite"
    database = sqlite3.connect(path)
    database.executescript("""
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllGather'), (2, 'cudaLaunchKernel_v7000');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
            start, "end", deviceId, streamId, correlationId, demangledName, gridX, gridY, gridZ,
            blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory
        );
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 150, 1, 7, 5, 1, 2, 1, 1, 32, 1, 1, 8, 0, 16);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (200, NULL, 1, 7, 6, 1, 2, 1, 1, 32, 1, 1, 8, 0, 16);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, "end", globalTid, correlationId, nameId);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (90, 95, 16777218, 5, 2);
        CREATE TABLE OSRT_API (unlike);
    """)
    database.commit()
    database.close()
    tables, report = imported(path)
    (kernel,) = rows(tables, "kernels")
    assert (kernel["kind"], kernel["collective"], kernel["device"], kernel["stream"]) == (
        "communication",
        "allgather",
        1,
        7,
    )
    assert json.loads(kernel["detail"])["shared memory"] == 16
    (launch,) = rows(tables, "launches")
    assert (launch["name"], launch["thread"], launch["duration"]) == ("cudaLaunchKernel", 2, 5)
    (counts,) = report.skipped.values()
    assert counts["an event without a time"] == 1
    assert any(why.startswith("table OSRT_API") for why in counts)

    other = tmp_path / "other.sqlite"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE t (x)")
    database.commit()
    database.close()
    with pytest.raises(UnreadableError, match="StringIds"):
        imported(other)
    other.write_bytes(path.read_bytes()[:100] + b"\xff" * 5000)
    with pytest.raises(UnreadableError):
        imported(other)


def test_processes_of_one_report_count_their_calls_each_anew(tmp_path, imported):
    path = tmp_path / "run.sqlite"
    one, two = 7 << 24, 8 << 24
    with sqlite3.connect(path) as database:
        database.executescript(f"""
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel');
            CREATE TABLE TARGET_INFO_GPU (id, name);
            INSERT INTO TARGET_INFO_GPU VALUES (1, 'second'), (0, 'first');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
                start, "end", deviceId, streamId, correlationId, globalPid, demangledName
            );
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 150, 0, 7, 5, {one}, 1);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (300, 350, 1, 7, 5, {two}, 1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, "end", globalTid, correlationId, nameId);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (90, 95, {one + 2}, 5, 2);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (92, 96, {two + 2}, 5, 2);
        """)
    database.close()
    tables, report = imported(path)
    launched = {row["correlation"]: row["time"] for row in rows(tables, "launches")}
    assert [launched[kernel["correlation"]] for kernel in rows(tables, "kernels")] == [90, 92]
    assert report.facts[str(path)]["devices"] == [{"id": 1, "name": "second"}, {"id": 0, "name": "first"}]


def test_xplane(data, imported):
    tables, report = imported(data / "traces/xprof/gpu-multi-worker.xplane.pb")
    assert report.events == 23_128
    assert report.skipped == {}
    linked = tables.sql("SELECT count(*) AS n FROM kernels JOIN launches USING (correlation)")
    assert linked["n"].tolist() == [len(tables.table("kernels"))] == [1330]
    assert set(tables.table("kernels")["device"].tolist()) <= set(range(8))
    assert set(tables.table("memory_operations")["kind"].tolist()) >= {"h2d"}


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def named(number, key, name):
    return field(number, field(1, key) + field(2, field(1, key) + field(2, name)))


def test_an_xplane_made_here(tmp_path, imported):
    def line(id_, name, start, *events):
        return field(
            3, field(1, id_) + field(2, name) + field(3, start) + b"".join(field(4, e) for e in events)
        )

    def event(metadata, offset_ps, duration_ps, correlation=0):
        stat = field(4, field(1, 9) + field(3, correlation)) if correlation else b""
        return field(1, metadata) + field(2, offset_ps) + field(3, duration_ps) + stat

    names = named(4, 1, "gemm") + named(4, 2, "MemcpyD2H") + named(4, 3, "12") + named(5, 9, "correlation_id")
    device = field(2, "/device:GPU:3") + line(
        14, "Stream #14(Compute)", 1000, event(1, 5000, 7000, 77), event(2, 20_000, 1000)
    )
    device += line(1, "Steps", 1000, event(3, 0, 40_000)) + names
    host = field(2, "/host:CPU") + line(55, "main", 900, event(1, 0, 2000, 77)) + names
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(field(1, device) + field(1, host))
    tables, report = imported(path)
    (kernel,) = rows(tables, "kernels")
    told = [kernel[name] for name in ("time", "duration", "device", "stream", "correlation", "name")]
    assert told == [1005, 7, 3, 14, 77, "gemm"]
    assert [row["kind"] for row in rows(tables, "memory_operations")] == ["d2h"]
    assert [row["thread"] for row in rows(tables, "launches")] == [55]
    assert [(row["step"], row["duration"]) for row in rows(tables, "spans")] == [(12, 40)]
    assert report.skipped == {}

    whole = path.read_bytes()
    for cut in range(0, len(whole), 17):
        path.write_bytes(whole[:cut])
        try:
            imported(path)
        except UnreadableError:
            continue
    path.write_bytes(b"\x0a" + b"\xff" * 9 + b"\x01" + whole)  # a length of 2^63 bytes and more
    with pytest.raises(UnreadableError, match="no XPlane"):
        imported(path)


def test_numbers_of_messages():
    data = memoryview(
        field(3, 1 << 63) + varint(2 << 3 | 1) + struct.pack("<d", 1.5) + varint(4 << 3 | 5) + bytes(4)
    )
    (one, number), (two, double), (three, four) = protobuf.fields(data)
    assert (one, protobuf.signed(number), two, three) == (3, -(1 << 63), 2, 4)
    assert struct.unpack("<d", double) == (1.5,)
    assert bytes(four) == bytes(4)
    for bad in (b"\x0b", b"\x08", b"\x12\x05a", b"\xff" * 12):
        with pytest.raises(BadMessageError):
            list(protobuf.fields(memoryview(bad)))
