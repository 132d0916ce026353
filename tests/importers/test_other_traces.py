"""Plain Chrome traces, SageMaker's folders, Nsight Systems and XPlane: given files and some made here."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections import Counter

import pytest

from holter.importers import UnreadableError, protobuf
from holter.importers.device_events import copy_kind
from holter.importers.kernel_kinds import collective, element_bytes, is_communication


def rows(tables, table, **where):
    condition = " AND ".join(f"{name} = '{value}'" for name, value in where.items()) or None
    return list(tables.table(table, where=condition).to_rows())


def test_pairs_flows_counters_and_what_does_not_end(written, imported):
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "server"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "worker"}},
        {"ph": "B", "name": "outer", "pid": 1, "tid": 2, "ts": 10, "args": {"k": 1}},
        {"ph": "B", "name": "inner", "pid": 1, "tid": 2, "ts": 12},
        {"ph": "B", "name": "other process", "pid": 9, "tid": 2, "ts": 13},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 15},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 20},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 21},
        {"ph": "s", "cat": "rpc", "id": "0x1", "pid": 1, "tid": 2, "ts": 11},
        {"ph": "t", "cat": "rpc", "id": "0x1", "pid": 9, "tid": 2, "ts": 14},
        {"ph": "f", "cat": "rpc", "id": "0x1", "pid": 1, "tid": 2, "ts": 19},
        {"ph": "C", "name": "memory", "pid": 1, "ts": 16, "args": {"used": 5, "free": 7, "text": "x"}},
        {"ph": "C", "name": "queue", "pid": 1, "ts": 17, "args": {"length": 3}},
        {"ph": "i", "name": "mark", "pid": 1, "tid": 2, "ts": 18, "s": "g"},
        {"ph": "b", "cat": "async", "id": 5, "name": "request", "pid": 1, "tid": 2, "ts": 30},
        {"ph": "e", "cat": "async", "id": 5, "name": "request", "pid": 1, "tid": 2, "ts": 40},
        {"ph": "X", "cat": "FEE", "name": "f (a.py:1)", "pid": 1, "tid": 2, "ts": 50, "dur": 1.5},
        {"ph": "Q", "name": "?", "pid": 1, "tid": 2, "ts": 51},
    ]
    tables, report = imported(written(json.dumps(events).encode()))
    told = {row["name"]: (row["time"], row["duration"], row["kind"]) for row in rows(tables, "operators")}
    assert told == {
        "inner": (12_000, 3000, "operator"),
        "outer": (10_000, 10_000, "operator"),
        "request": (30_000, 10_000, "operator"),
        "f (a.py:1)": (50_000, 1500, "python"),
        "mark": (18_000, 0, "annotation"),
        "other process": (13_000, 38_500, "operator"),  # to the end of the trace
    }
    assert json.loads(rows(tables, "operators", name="outer")[0]["detail"]) == {"k": 1}
    threads = {row["name"]: row["thread"] for row in rows(tables, "operators")}
    assert threads["outer"] == 2
    assert threads["other process"] != 2  # the same number in another process is another thread
    flows = [(row["time"], row["duration"], row["kind"]) for row in rows(tables, "flows")]
    assert flows == [(11_000, 3000, "rpc"), (14_000, 5000, "rpc")]
    counters = {row["name"]: row["value"] for row in rows(tables, "counters")}
    assert counters == {"memory/used": 5, "memory/free": 7, "queue": 3}
    tracks = {(row["kind"], row["process"]): row["name"] for row in rows(tables, "tracks")}
    assert (tracks[("process", 1)], tracks[("thread", 1)]) == ("server", "worker")
    ((counts,), (notes,)) = report.skipped.values(), report.notes.values()
    assert dict(counts) == {"the end of a slice that did not begin": 1, "an event of kind 'Q'": 1}
    assert notes == ["1 slices do not end; they are taken to last until the trace ends"]


@pytest.mark.parametrize(
    ("name", "slices"),
    [
        ("catapult/flow.json.gz", 1000),
        ("catapult/main_thread_has_unclosed_slices.json.gz", 1600),
        ("catapult/thread_time_visualisation.json.gz", 40_000),
        ("viztracer/multi_process_pool.json.gz", 12_000),
        ("bytedance-straggler/timeline-ST.json.gz", 6700),
        ("bytedance-straggler/ideal-timeline-ST.json.gz", 6700),
        (
            "mindinsight/profiler_PROF_000001_20230818142704322_COJGGGCANRMICFBC_device_0_timeline_msprof_0_2_8.json",
            500,
        ),
    ],
)
def test_given_chrome_traces(name, slices, data, imported):
    tables, report = imported(data / "traces" / name)
    assert len(tables.table("operators")) > slices
    assert sum(map(sum, (counts.values() for counts in report.skipped.values()))) < report.events / 5


def test_what_sagemaker_counted_itself(data, imported):
    folder = data / "sagemaker"
    tables, report = imported(folder / "test_traces/system")
    samples = tables.table("samples")
    assert len(samples) == 78
    assert Counter(samples["metric"].tolist())["cpu.core.util"] == 68
    assert set(samples["node"].tolist()) == {"algo-1"}
    assert report.ranks == {}
    second = 10**9
    assert len(tables.table("samples", end_ns=1591167699 * second + 1)) == 10
    found = tables.table("samples", start_ns=1591748165 * second, end_ns=1600000000 * second + 1)
    assert len(found) == 32

    tables, _ = imported(folder / "horovod_timeline_traces")
    assert len(rows(tables, "operators", kind="operator")) == 19 + 4  # four slices do not end
    at = (1593673051472800 * 1000, 1593673051473100 * 1000)
    where = f"kind = 'operator' AND time <= {at[1]} AND time + duration >= {at[0]}"
    where += " AND name <> 'NEGOTIATE_ALLREDUCE'"
    assert len(tables.table("operators", where=where)) == 15

    tables, _ = imported(folder / "model_timeline_traces")
    first, last = 1590461127873222 * 1000, 1590461139949971 * 1000
    where = f"time <= {last} AND time + duration >= {first}"
    assert len(tables.table("operators", where=where)) == 54

    tables, report = imported(folder / "tfprofiler_timeline_traces")
    assert len(tables.table("operators")) == 798
    assert report.start_ns is not None
    assert report.start_ns // 10**9 == 1596659864  # the metadata file says so

    tables, _ = imported(folder / "test_traces/framework")
    where = "time < 1589930995000000000 AND time + duration > 1589930980000000000"
    assert len(tables.table("operators", where=where)) == 4
    assert len(set(tables.table("operators")["rank"].tolist())) == 1


def test_a_corrupt_line_costs_itself(data, imported):
    tables, report = imported(data / "sagemaker/1591160699.algo-1.json.corrupt")
    (counts,) = report.skipped.values()
    assert dict(counts) == {"a line that is no reading": 1}
    assert len(tables.table("samples")) == 13


def test_readings_made_here(tmp_path, imported):
    lines = [
        {"Type": "cpu", "Name": "cpu3", "Dimension": "CPUUtilization", "Value": 4.5, "NodeId": "algo-2"},
        {"Type": "network", "Name": "ReceiveBytesPerSecond", "Dimension": "Algorithm", "Value": 10},
        {"Type": "network", "Name": "ReceiveBytesPerSecond", "Dimension": "Platform", "Value": 20},
        {"Type": "memory", "Name": "MemoryUsedPercent", "Dimension": "", "Value": 30.0},
        {"Type": "tpu", "Name": "tpu0", "Dimension": "Utilization", "Value": 1.0},
    ]
    path = tmp_path / "1591160699.algo-2.json"
    path.write_text(
        "".join(json.dumps({**line, "Timestamp": 1591160699.5}) + "\n" for line in lines) + '{"Type"'
    )
    tables, report = imported(path)
    told = {(row["metric"], row["device"]): row["value"] for row in rows(tables, "samples")}
    assert told == {
        ("cpu.core.util", "cpu3"): 4.5,
        ("net.rx", ""): 10,
        ("net.rx", "platform"): 20,
        ("mem.used_pct", ""): 30,
    }
    (counts,) = report.skipped.values()
    assert dict(counts) == {"a metric that is not known": 1, "a line that is no reading": 1}


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
    assert (one, protobuf.whole(number), two, three) == (3, -(1 << 63), 2, 4)
    assert struct.unpack("<d", double) == (1.5,)
    assert bytes(four) == bytes(4)
    for bad in (b"\x0b", b"\x08", b"\x12\x05a", b"\xff" * 12):
        with pytest.raises(protobuf.BadMessageError):
            list(protobuf.fields(memoryview(bad)))


def test_what_names_say():
    for name in (
        "ncclDevKernel_AllReduce_Sum",
        "rcclGenericKernel",
        "void vllm::cross_device_reduce_1stage<half>",
    ):
        assert is_communication(name)
    for name in ("void at::native::reduce_kernel<512>", "cub::DeviceReduceKernel", "volta_sgemm_128x32_nn"):
        assert not is_communication(name)
    names = {
        "ncclKernel_AllReduce_RING_LL_Sum_float": "allreduce",
        "ncclDevKernel_ReduceScatter_Sum_f32": "reducescatter",
        "_allgather_base": "allgather",
        "all_to_allv": "alltoall",
        "ncclDevKernel_SendRecv": "sendrecv",
        "ncclDevKernel_Broadcast_RING_LL": "broadcast",
        "ncclDevKernel_Generic": "",
    }
    assert {name: collective(name) for name in names} == names
    sizes = {
        "Float": 4,
        "BFloat16": 2,
        "Half": 2,
        "Long": 8,
        "c10::Double": 8,
        "Int8": 1,
        "Float8_e4m3fn": 1,
        "?": 0,
    }
    assert {dtype: element_bytes(dtype) for dtype in sizes} == sizes
    copies = {
        "Memcpy HtoD (Pageable -> Device)": ("h2d", "pageable"),
        "Memcpy DtoH (Device -> Pinned)": ("d2h", "pinned"),
        "Memcpy DtoD (Device -> Device)": ("d2d", ""),
        "Memcpy PtoP (Device -> Device)": ("p2p", ""),
        "Memset (Device)": ("memset", ""),
        "CopyHostToDevice": ("h2d", ""),
        "dma_request DEVICE_TO_HOST": ("d2h", ""),
        "MemcpyH2D": ("h2d", ""),
        "hipMemcpyPeer": ("p2p", ""),
    }
    assert {name: copy_kind(name) for name in copies} == copies
