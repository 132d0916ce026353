"""Plain Chrome traces and SageMaker's folders: given files and some made here; what names say."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.compat import profiler_output as made

from holter.importers import import_job
from holter.importers.kineto.device_events import copy_kind
from holter.importers.kineto.kernel_kinds import collective, element_bytes, is_communication
from holter.views.document.description import describe
from holter.views.tables import steps_of


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
    ],
)
def test_given_chrome_traces(name, slices, data, imported):
    tables, report = imported(data / "traces" / name)
    assert len(tables.table("operators")) > slices
    assert sum(map(sum, (counts.values() for counts in report.skipped.values()))) < report.events / 5


def test_ascend(data, imported):
    (path,) = (data / "traces/mindinsight").glob("*.json")
    tables, _ = imported(path)
    told = [event["args"].get("Task Type") for event in json.loads(path.read_bytes()) if event.get("args")]
    computing = sum(str(task).startswith("AI_") for task in told)
    kernels = rows(tables, "kernels")
    assert Counter(row["kind"] for row in kernels) == {"compute": computing, "communication": 1}
    assert [row["collective"] for row in kernels if row["kind"] == "communication"] == ["allreduce"]
    assert len(rows(tables, "memory_operations")) == told.count("MEMCPY_ASYNC")
    assert {row["step"] for row in rows(tables, "spans")} == {8}
    assert {row["device"] for row in kernels} == {0}


def test_what_sagemaker_counted_itself(data, imported):
    folder = data / "sagemaker"
    tables, report = imported(folder / "test_traces/system")
    read = "metric NOT IN ('cpu.util', 'cpu.iowait')"  # SageMaker has no means of all cores, we add them
    samples = tables.table("samples", where=read)
    assert len(samples) == 78
    assert Counter(samples["metric"].tolist())["cpu.core.util"] == 68
    assert set(samples["node"].tolist()) == {"algo-1"}
    assert report.ranks == {}
    second = 10**9
    assert len(tables.table("samples", end_ns=1591167699 * second + 1, where=read)) == 10
    found = tables.table("samples", start_ns=1591748165 * second, end_ns=1600000000 * second + 1, where=read)
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


def test_steps_alone_tell_when_the_job_was(tmp_path):
    path = tmp_path / "1700000002000000_1-algo-1_pythontimeline.json"
    name = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Step:ModeKeys.TRAIN"}}
    base = {**name, "pid": 0, "args": {"start_time_since_epoch_in_micros": 1_700_000_000_000_000}}
    steps = [
        {"ph": "X", "name": "s", "pid": 1, "ts": n * 1000, "dur": 900, "args": {"step_num": n}}
        for n in (1, 2)
    ]
    path.write_text(json.dumps([base, name, *steps]))
    folder, _ = import_job([path], str(tmp_path / "store"), "job", now_ns=5)
    assert folder.manifest()["start"] == 1_700_000_000_001_000_000
    assert folder.manifest()["end"] == 1_700_000_000_002_900_000


def test_readings_may_stand_in_a_list(tmp_path, imported):
    reading = {"Type": "cpu", "Name": "cpu0", "Dimension": "CPUUtilization", "Value": 5.0, "NodeId": "algo-1"}
    lines = [json.dumps({**reading, "Timestamp": 1.7e9 + n}) for n in range(3)]
    path = tmp_path / "1700000000.algo-1.json"
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    tables, report = imported(path)
    assert len(tables.table("samples", where="metric = 'cpu.core.util'")) == 3
    assert not report.skipped


def test_a_corrupt_line_costs_itself(data, imported):
    tables, report = imported(data / "sagemaker/1591160699.algo-1.json.corrupt")
    (counts,) = report.skipped.values()
    assert dict(counts) == {"a line without a reading": 1}
    assert len(tables.table("samples", where="metric NOT IN ('cpu.util', 'cpu.iowait')")) == 13


def test_an_old_job_has_steps_and_a_load(tmp_path, imported):
    tables, report = imported(made.write(tmp_path / "profiler-output"))
    assert report.omitted == {"lives of data-loader workers": 1}
    steps = steps_of(tables)
    assert steps.rows == made.STEPS + 2
    assert set(steps["mode"].tolist()) == {"train", "eval"}
    train = steps.where(steps["mode"] == "train")
    # From the end of the step before: 0.5 s without a pass, of which the wait for data is 0.3 s.
    assert train["duration"].tolist()[1:] == [2_000_000_000] * (made.STEPS - 1)
    assert train["data_loading"].tolist()[1:4] == [300_000_000] * 3
    assert set(train["forward"].tolist()) == {500_000_000}
    assert set(train["backward"].tolist()) == {750_000_000}
    names = {row["name"] for row in rows(tables, "operators")}
    assert names == {"aten::conv2d"}
    load = rows(tables, "samples", metric="cpu.util")
    assert {row["value"] for row in load} == {55.0}
    assert len(load) == 2 * 120
    described = describe(tables)
    assert [(node["node"], node["cpus"], node["ranks"]) for node in described["nodes"]] == [
        ("algo-1", 2, [111]),
        ("algo-2", 2, []),
    ]
    assert described["breakdown"]["data_loading"] == pytest.approx(15, abs=2)
    assert described["steps"]["mean_ms"] == pytest.approx(2000, rel=0.05)


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
        ("cpu.util", ""): 4.5,
        ("net.rx", ""): 10,
        ("net.rx", "platform"): 20,
        ("mem.used_pct", ""): 30,
    }
    (counts,) = report.skipped.values()
    assert dict(counts) == {"a metric that is not known": 1, "a line without a reading": 1}


def test_what_names_say():
    for name in (
        "ncclDevKernel_AllReduce_Sum",
        "rcclGenericKernel",
        "void vllm::cross_device_reduce_1stage<half>",
        "void dpsk::ep::internode::notify_dispatch<false, 8>(int const*, long*)",
        "void dpsk::ep::internode::cached_notify<false>(int, int)",
        "void deep_ep::intranode::cached_notify_combine<8>(void**, int*)",
        "void deep_ep::internode_ll::dispatch<true, 7168>(void*)",
    ):
        assert is_communication(name)
    for name in (
        "void at::native::reduce_kernel<512>",
        "cub::DeviceReduceKernel",
        "volta_sgemm_128x32_nn",
        "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*)",
    ):
        assert not is_communication(name)
    names = {
        "ncclKernel_AllReduce_RING_LL_Sum_float": "allreduce",
        "ncclDevKernel_ReduceScatter_Sum_f32": "reducescatter",
        "_allgather_base": "allgather",
        "all_to_allv": "alltoall",
        "ncclDevKernel_SendRecv": "sendrecv",
        "ncclDevKernel_Broadcast_RING_LL": "broadcast",
        "ncclDevKernel_Generic": "",
        "void dpsk::ep::internode::notify_dispatch<false, 8>(int const*)": "barrier",
        "void dpsk::ep::internode::cached_notify<false>(int, int)": "barrier",
        "void dpsk::ep::internode::combine<false, 8>(int4*)": "alltoall",
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
