"""Traces of torch.profiler: all that were given, one made on the spot, and what each column means."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest


def x(cat, name, ts, dur, pid=1, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def test_a_training_step_in_all_its_tables(written, imported):
    events = [
        x("user_annotation", "ProfilerStep#3", 100, 50),
        x("user_annotation", "ProfilerStep#4", 150, 50),
        x("cpu_op", "aten::mm", 101.5, 10, **{"Input Dims": [[2, 3], [3, 4]], "External id": 7}),
        x("python_function", "train.py(3): step", 100, 20),
        x("python_function", "nn.Module: Linear_0", 101, 15),
        x("cuda_runtime", "cudaLaunchKernel", 102, 2, correlation=11),
        x("cuda_runtime", "cudaMemcpyAsync", 104, 2, correlation=12),
        x("cuda_runtime", "cudaLaunchKernel", 152, 2, correlation=13),
        x("cuda_runtime", "cudaStreamSynchronize", 110, 5, correlation=14),
        x("cuda_runtime", "cudaMalloc", 116, 1, correlation=15),
        # Launched in step 3, it runs in step 4: it belongs to step 3.
        x("kernel", "gemm", 160, 9, 0, 7, device=0, stream=7, correlation=11, grid=[8, 1, 1]),
        x("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 120, 4, 0, 7, correlation=12, bytes=64),
        x(
            "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 170, 9, 0, 20, correlation=13,
            **{"Collective name": "allreduce", "In msg nelems": 10, "Out msg nelems": 10, "dtype": "Float",
               "Group size": 8, "Process Group Name": "0"},
        ),
        {"ph": "s", "id": 1, "cat": "fwdbwd", "name": "fwdbwd", "pid": 1, "tid": 1, "ts": 101.5},
        {"ph": "f", "id": 1, "cat": "fwdbwd", "name": "fwdbwd", "pid": 1, "tid": 2, "ts": 130, "bp": "e"},
        {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 103,
         "args": {"Device Type": 1, "Device Id": 0, "Total Allocated": 4096, "Total Reserved": 8192}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
    ]  # fmt: skip
    path = written(events, distributedInfo={"rank": 5, "world_size": 8}, baseTimeNanoseconds=10**18)
    tables, report = imported(path)
    assert report.ranks == {str(path): 5}
    assert report.skipped == {}
    assert report.facts[str(path)]["world_size"] == 8
    base = 10**18

    operators = {row["name"]: row for row in tables.table("operators").to_rows()}
    assert operators["aten::mm"]["time"] == base + 101_500
    assert operators["aten::mm"]["duration"] == 10_000
    assert json.loads(operators["aten::mm"]["detail"]) == {"Input Dims": [[2, 3], [3, 4]]}
    kinds = {name: row["kind"] for name, row in operators.items()}
    assert kinds == {
        "ProfilerStep#3": "annotation",
        "ProfilerStep#4": "annotation",
        "aten::mm": "operator",
        "train.py(3): step": "python",
        "nn.Module: Linear_0": "module",
        "cudaMalloc": "runtime",
    }
    assert {row["rank"] for row in operators.values()} == {5}
    assert [row["step"] for row in tables.table("launches").to_rows()] == [3, 3, 4]
    (sync,) = tables.table("syncs").to_rows()
    assert (sync["kind"], sync["duration"], sync["step"]) == ("stream", 5000, 3)

    gemm, collective = tables.table("kernels").to_rows()
    assert (gemm["kind"], gemm["stream"], gemm["step"], gemm["correlation"]) == ("compute", 7, 3, 11)
    assert json.loads(gemm["detail"]) == {"grid": [8, 1, 1]}
    told = [collective[k] for k in ("kind", "collective", "process_group", "group_size", "bytes", "step")]
    assert told == ["communication", "allreduce", "0", 8, 40, 4]
    (copy,) = tables.table("memory_operations").to_rows()
    assert (copy["kind"], copy["memory"], copy["bytes"], copy["step"]) == ("h2d", "pinned", 64, 3)

    (flow,) = tables.table("flows").to_rows()
    assert (flow["kind"], flow["thread"], flow["target"]) == ("forward_backward", 1, 2)
    assert (flow["time"], flow["duration"]) == (base + 101_500, 28_500)
    counters = {row["name"]: row["value"] for row in tables.table("counters").to_rows()}
    assert counters == {"memory cuda:0/allocated": 4096, "memory cuda:0/reserved": 8192}
    tracks = {
        (row["kind"], row["process"], row["thread"]): row["name"] for row in tables.table("tracks").to_rows()
    }
    assert tracks[("device", 0, -1)] == "GPU 0"
    assert tracks[("stream", 0, 7)] == "stream 7"

    spans = tables.table("spans").to_rows()
    assert [(s["phase"], s["step"], s["time"] - base, s["duration"]) for s in spans] == [
        ("step", 3, 100_000, 50_000),
        ("step", 4, 150_000, 50_000),
    ]


def test_steps_by_time_where_correlations_do_not_count_up(written, imported):
    events = [x("user_annotation", f"ProfilerStep#{n}", 100 * n, 100) for n in (1, 2)]
    for n, (first, second) in enumerate([(9, 1), (5, 7)], 1):
        events += [
            x("cuda_runtime", "hipLaunchKernel", 100 * n + k, 1, correlation=c)
            for k, c in enumerate((first, second))
        ]
    events += [x("kernel", "k", 250, 5, 0, 0, correlation=9)]
    tables, _ = imported(written(events))
    assert tables.table("kernels")["step"].tolist() == [2]


PROFILED = """
import sys
import torch
from torch.profiler import ProfilerActivity, profile, schedule

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=0, warmup=1, active=3),
    on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1]),
    with_stack=True,
    record_shapes=True,
    profile_memory=True,
) as profiler:
    for _ in range(4):
        model(torch.randn(4, 8)).sum().backward()
        profiler.step()
"""


def test_a_profile_made_now(tmp_path, imported):
    pytest.importorskip("torch")
    path = tmp_path / "worker7.pt.trace.json.gz"
    # With stacks, the profiler of torch 2.13 crashes inside pytest: a process of its own.
    subprocess.run([sys.executable, "-c", PROFILED, str(path)], check=True, capture_output=True)
    told = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    tables, report = imported(path)
    assert report.ranks == {str(path): 7}
    assert report.events == len(told)
    categories = Counter(event["cat"].lower() for event in told if event["ph"] == "X")
    kinds = Counter(tables.table("operators")["kind"].tolist())
    assert kinds["operator"] == categories["cpu_op"]
    assert kinds["annotation"] == categories["user_annotation"]
    assert kinds["python"] + kinds["module"] == categories["python_function"]
    dims = sorted(str(e["args"]["Input Dims"]) for e in told if e.get("name") == "aten::addmm")
    rows = tables.table("operators", where="name = 'aten::addmm'")
    assert sorted(str(json.loads(detail)["Input Dims"]) for detail in rows["detail"]) == dims
    steps = tables.table("spans", where="phase = 'step'")
    assert len(steps) == 3
    # The profile is of now: its clock is that of the epoch.
    assert abs(int(steps["time"][0]) - path.stat().st_mtime_ns) < 600 * 10**9
    assert set(rows["step"].tolist()) == set(steps["step"].tolist())
    assert (tables.table("flows")["kind"] == "forward_backward").all()


COMPARED = (
    "hta/amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta/critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz",
    "hta/nccl_parser_config_nccl_data.json.gz",
    "tracelens/b200_eager_trace.json.gz",
    "tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
)
IMPORTED = (
    "hta/distributed_info_unavailable_distributed_info_not_found.json.gz",
    "hta/negative_queue_length_values_check_rank0.json.gz",
    "hta/ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta/rank_unavailable_rank_not_found.json.gz",
    "hta/trace_diff_control_control.json.gz",
    "hta/trace_diff_test_test.json.gz",
    "kineto/resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz",
    "kineto/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz",
    "param/linear_kineto.json.gz",
    "tracelens/mi300_ddp_resnet18_no_pool_train_resnet18.json.gz",
    "tracelens/mi300_resnet_act_checkpoint.json.gz",
)
"""The others are larger: `benchmarks/importing.py` imports them."""


@pytest.mark.parametrize("name", IMPORTED)
def test_a_given_trace_imports(name, data, imported):
    _, report = imported(data / "traces" / name)
    assert report.events > 2000
    assert report.skipped == {}


@pytest.mark.parametrize("name", COMPARED)
def test_a_given_trace_says_what_the_file_says(name, data, imported):
    path = data / "traces" / name
    told = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    tables, report = imported(path)
    assert report.events == len(told)
    assert report.skipped == {}

    def of(*cats):
        return [event for event in told if event["ph"] == "X" and event.get("cat", "").lower() in cats]

    def same(table, events, where=None):
        rows = tables.table(table, where=where)
        assert len(rows) == len(events)
        exact = sorted(round(event.get("dur", 0) * 1000) for event in events)
        assert np.abs(np.sort(rows["duration"]) - exact).max(initial=0) == 0

    same("kernels", of("kernel"))
    same("memory_operations", of("gpu_memcpy", "gpu_memset", "memcpy", "memset"))
    same("operators", of("cpu_op", "operator"), "kind = 'operator'")
    same("operators", of("user_annotation"), "kind = 'annotation'")
    same("operators", of("python_function"), "kind IN ('python', 'module')")
    by_launch = Counter(event["args"]["correlation"] for event in of("kernel"))
    assert Counter(tables.table("kernels")["correlation"].tolist()) == by_launch
    names = Counter(event["name"] for event in of("kernel"))
    assert Counter(tables.table("kernels")["name"].tolist()) == names
    called = {e["name"] for e in of("cuda_runtime", "cuda_driver", "runtime")}
    stored = tables.sql(
        "SELECT name FROM launches UNION SELECT name FROM syncs "
        "UNION SELECT name FROM operators WHERE kind = 'runtime'"
    )
    assert set(stored["name"].tolist()) >= called
    size = sum(f.stat().st_size for f in tables.folder.place.path.rglob("*") if f.is_file())
    if path.stat().st_size > 1_000_000:  # each table of a small trace is a file with its own footer
        assert size <= path.stat().st_size / 3


def test_all_ranks_of_a_folder(data, imported):
    tables, report = imported(data / "traces/param/dlrm_8rank")
    assert sorted(report.ranks.values()) == list(range(8))
    kernels = tables.sql(
        "SELECT rank, count(*) AS n FROM kernels WHERE kind = 'communication' GROUP BY 1 ORDER BY 1"
    )
    assert kernels["n"].tolist() == [8] * 8


def test_mtia(written, imported):
    events = [
        x("mtia_runtime", "runFunction - job_prep_and_submit_for_execution", 10, 5, 9, 9, correlation=4),
        x("mtia_ccp_events", "add-dtype_Float", 20, 5, 9, 4, correlation=4, stream=1),
        x("mtia_ccp_events", "dma_request", 30, 5, 9, 801, direction="DEVICE_TO_HOST", size=16),
    ]
    tables, _ = imported(written(events))
    assert tables.table("launches")["correlation"].tolist() == [4]
    assert tables.table("kernels")["stream"].tolist() == [1]
    (copy,) = tables.table("memory_operations").to_rows()
    assert (copy["kind"], copy["bytes"], copy["stream"]) == ("d2h", 16, -1)
