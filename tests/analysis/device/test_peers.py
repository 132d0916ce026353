"""The numbers of HTA, TraceLens and TensorBoard on real traces, to the microsecond, or why not."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.analysis.kineto import DATA, given, load

from holter.analysis.device.idle_time import idle_time
from holter.analysis.device.kernel_statistics import kernel_table
from holter.analysis.device.launching import HTA_CALLS, launch_delays, queue_lengths
from holter.analysis.device.roofline import roofline
from holter.analysis.device.steps import annotation_table, step_roles
from holter.analysis.device.time_breakdown import TimeBreakdown, time_breakdown
from holter.analysis.device.trace_diff import trace_diff
from holter.analysis.device.work import COMPUTE, Work, device_work
from holter.schema.table import Table

TRACES = {
    "hta_df_index_resolver": "hta/df_index_resolver_df_index_resolver.json.gz",
    "hta_amd_mi250_minitoy": "hta/amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta_mtia_rank0": "hta/mtia_trace_single_rank_mtia_rank_0.json.gz",
    "hta_nccl_data": "hta/nccl_parser_config_nccl_data.json.gz",
    "hta_negative_queue_rank0of16": "hta/negative_queue_length_values_check_rank0.json.gz",
    "hta_trace_diff_control": "hta/trace_diff_control_control.json.gz",
    "hta_trace_diff_test": "hta/trace_diff_test_test.json.gz",
    "param_linear": "param/linear_kineto.json.gz",
    "tracelens_ddp_resnet18_mi300": "tracelens/mi300_ddp_resnet18_no_pool_train_resnet18.json.gz",
    "tracelens_owlv2_mi300": "tracelens/mi300_google_owlv2-large-patch14-ensemble__1016001.json.gz",
}
"""Traces of which HTA says what its definition says; `kineto_resnet50_*` are of other runs than the files."""
SUB_MICROSECOND = {
    "tracelens_owlv2_h100": "tracelens/h100_google_owlv2-large-patch14-ensemble__1016001.json.gz",
}
"""Traces in which HTA's rounding makes intervals of negative length."""
TRACELENS_ONLY = {
    "tracelens_b200_eager": "tracelens/b200_eager_trace.json.gz",
    "hta_alexnet_critical_path": (
        "hta/critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz"
    ),
    "tracelens_qwen_h100": "tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tracelens_resnet_act_ckpt_mi300": "tracelens/mi300_resnet_act_checkpoint.json.gz",
}


def microseconds(found: TimeBreakdown) -> list[int]:
    parts = (found.idle_ns, found.compute_ns, found.non_compute_ns, found.span_ns)
    assert all(part % 1000 == 0 for part in parts)
    return [part // 1000 for part in parts]


def expected(name: str) -> list[int]:
    with given("expected", name, "hta", "temporal_breakdown.csv").open() as file:
        row = next(csv.DictReader(file))
    return [int(float(row[f"{part}_time(us)"])) for part in ("idle", "compute", "non_compute", "kernel")]


def rows_of(*parts: str) -> list[dict[str, str]]:
    with given("expected", *parts).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_has_the_numbers_of_its_peers(name: str) -> None:
    loaded = load(given("traces", TRACES[name]))
    as_hta(name, loaded)
    idle_as_hta(name, loaded)
    launches_as_hta(name, loaded)
    kernels_as_hta(name, loaded)
    annotations_as_hta(name, loaded)
    as_tracelens(name, loaded)


def annotations_as_hta(name: str, loaded: dict[str, Table]) -> None:
    if not DATA.joinpath("expected", name, "hta", "user_annotation_cpu.csv").exists():
        return  # it writes none where there are none
    found = {row["name"]: row for row in annotation_table(loaded, definition="hta").to_rows()}
    for row in rows_of(name, "hta", "user_annotation_cpu.csv"):
        mine = found[row["name"]]
        told = [mine["total_ns"], mine["max_ns"], mine["min_ns"]]
        assert [ns / 1000 for ns in told] == [float(row[f"{key} (us)"]) for key in ("sum", "max", "min")]


def as_hta(name: str, loaded: dict[str, Table]) -> None:
    (found,) = time_breakdown(loaded, "hta")
    assert microseconds(found) == expected(name)
    overlap = rows_of(name, "hta", "comm_comp_overlap.csv")[0]["comp_comm_overlap_pctg"]
    mine = round(found.overlap_pct, 2) if found.overlap_pct is not None else None
    assert mine == (float(overlap) if overlap else None)


def idle_as_hta(name: str, loaded: dict[str, Table]) -> None:
    mine = {}
    for found in idle_time(loaded, "hta"):
        mine[str(found.stream), "host_wait"] = found.host_wait_ns / 1e3
        mine[str(found.stream), "kernel_wait"] = found.kernel_wait_ns / 1e3
        mine[str(found.stream), "other"] = found.other_ns / 1e3
    for row in rows_of(name, "hta", "idle_time_breakdown.csv"):
        assert mine[row["stream"], row["idle_category"]] == float(row["idle_time"])


def launches_as_hta(name: str, loaded: dict[str, Table]) -> None:
    told = {row[""]: row for row in rows_of(name, "hta", "launch_stats_rank0_describe.csv")}
    pairs = launch_delays(loaded, "hta", calls=HTA_CALLS)
    assert pairs.rows == float(told["count"]["launch_delay"])
    if pairs.rows:
        assert pairs["delay_ns"].max() / 1e3 == float(told["max"]["launch_delay"])
        assert pairs["delay_ns"].mean() / 1e3 == pytest.approx(float(told["mean"]["launch_delay"]))
    with given("expected", name, "hta", "queue_length_summary.csv").open() as file:
        queues = list(csv.reader(file))[3:]
    for row, queue in zip(queues, queue_lengths(loaded, "hta") if queues else [], strict=True):
        assert (queue.stream, len(queue.time), queue.longest) == (int(row[1]), float(row[2]), float(row[9]))
        assert queue.mean == pytest.approx(float(row[3]), rel=0.02)


def kernels_as_hta(name: str, loaded: dict[str, Table]) -> None:
    found = {row["name"]: row for row in kernel_table(loaded, definition="hta").to_rows()}
    compared = 0
    for row in rows_of(name, "hta", "gpu_kernel_breakdown_all_1.csv"):
        mine = found.get(row["name"])
        if mine is None:
            assert row["kernel_type"] == "MEMORY"  # whose names say the host's memory too
            continue
        compared += 1
        for column, key in (("sum", "total_ns"), ("max", "max_ns"), ("min", "min_ns")):
            assert mine[key] / 1e3 == float(row[f"{column} (us)"]), row["name"]
        assert mine["deviation_ns"] / 1e3 == pytest.approx(float(row["stddev"]))
    assert compared >= 10


def as_tracelens(name: str, loaded: dict[str, Table]) -> None:
    folder = given("expected", name)
    files = [folder / kind / "gpu_timeline.csv" for kind in ("tracelens_incl_unlinked", "tracelens")]
    file = next((path for path in files if path.exists()), None)
    if file is None:  # it fails on this trace
        assert name in ("hta_trace_diff_control", "hta_mtia_rank0")
        return
    with Path(file).open() as lines:
        told = {row["type"]: float(row["time ms"]) for row in csv.DictReader(lines)}
    (found,) = time_breakdown(loaded, "tracelens")
    mine = {
        "computation_time": found.compute_ns,
        "exposed_comm_time": found.communication_exposed_ns,
        "exposed_memcpy_time": found.memory_exposed_ns,
        "busy_time": found.busy_ns,
        "idle_time": found.idle_ns,
        "total_time": found.span_ns,
        "total_comm_time": found.communication_ns,
        "total_memcpy_time": found.memory_ns,
    }
    assert {part: ns / 1e6 for part, ns in mine.items()} == pytest.approx(told, abs=1e-3)


def test_it_is_what_hta_says_of_eight_ranks() -> None:
    with given("expected", "param_dlrm_8rank", "hta", "temporal_breakdown.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        rank = int(row["rank"])
        (path,) = given("traces", "param", "dlrm_8rank").glob(f"worker{rank}_*")
        (found,) = time_breakdown(load(path), "hta")
        assert microseconds(found)[0] == int(float(row["idle_time(us)"]))
        assert microseconds(found)[3] == int(float(row["kernel_time(us)"]))


def merged(work: Work, *kinds: int) -> int:
    """Add up joined intervals as HTA does, those of negative length too, in us."""
    some = np.isin(work.kind, kinds or range(4))
    order = np.argsort(work.begin[some], kind="stable")
    begin, end = work.begin[some][order], np.maximum.accumulate(work.end[some][order])
    first = np.concatenate([[True], begin[1:] > end[:-1]])
    groups = np.cumsum(first) - 1
    last = np.full(groups[-1] + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, groups, work.end[some][order])
    return int((last - begin[first]).sum()) // 1000


def test_hta_takes_an_operator_that_names_a_stream_for_device_work() -> None:
    """Triton's launchers are operators on the host that carry their kernel's name and its stream."""
    loaded = load(given("traces", TRACELENS_ONLY["tracelens_b200_eager"]))
    kernels, operators = loaded["kernels"], loaded["operators"]
    alike = operators.where(np.isin(operators["name"], list(set(kernels["name"]))))
    assert alike.rows == 1
    columns = {name: np.concatenate([kernels[name], alike[name]]) for name in ("time", "duration", "name")}
    rest = {
        name: np.append(kernels[name], kernels[name][:1]) for name in kernels.names if name not in columns
    }
    work = device_work({**loaded, "kernels": Table(columns | rest)}, "hta")
    idle, compute, _, span = expected("tracelens_b200_eager")
    assert (span - merged(work), merged(work, COMPUTE)) == (idle, compute)


@pytest.mark.parametrize("name", SUB_MICROSECOND)
def test_where_hta_differs_it_counts_lengths_below_nothing(name: str) -> None:
    """Kernels of less than a microsecond end before they begin once rounded: HTA subtracts them."""
    loaded = load(given("traces", SUB_MICROSECOND[name]))
    (found,) = time_breakdown(loaded, "hta")
    idle, compute, non_compute, span = expected(name)
    assert microseconds(found) != [idle, compute, non_compute, span]
    work = device_work(loaded, "hta")
    assert (work.end < work.begin).any()
    assert merged(work, COMPUTE) == compute
    assert (span - merged(work), merged(work) - compute) == (idle, non_compute)
    assert microseconds(found)[3] == span


def test_hta_takes_the_devices_copy_of_a_step_for_the_step() -> None:
    """Annotations stand on the device too, later: with them HTA leaves out nothing but what has no launch."""
    loaded = load(given("traces", TRACELENS_ONLY["tracelens_resnet_act_ckpt_mi300"]))
    launched = set(loaded["launches"]["correlation"].tolist())

    def linked(name: str) -> Table:
        table = loaded[name]
        return table.where(np.array([c in launched for c in table["correlation"].tolist()]))

    without = {name: linked(name) for name in ("kernels", "memory_operations")}
    work = device_work(without, "hta")
    idle, compute, _, span = expected("tracelens_resnet_act_ckpt_mi300")
    assert (span - merged(work), merged(work, COMPUTE)) == (idle, compute)


def test_hta_loses_quarters_of_a_microsecond_in_large_floats() -> None:
    """A begin of 1.7e15 us as a float holds quarters: begin plus duration is rounded up over the next us."""
    path = given("traces", "hta", "ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz")
    work = device_work(load(path), "hta")
    raw = device_work(load(path))
    kept = np.isin(raw.correlation, work.correlation)
    # As the trace has them: whole and fraction together in one float.
    begin, length = raw.begin[kept] // 1000 + raw.begin[kept] % 1000 / 1e3, raw.duration[kept] / 1e3
    floats = work._replace(
        begin=np.ceil(begin).astype(np.int64) * 1000, end=np.floor(begin + length).astype(np.int64) * 1000
    )
    idle, compute, _, span = expected("hta_ns_resolution")
    assert merged(floats) == span - idle
    assert merged(floats, COMPUTE) == compute


@pytest.mark.parametrize("name", {**SUB_MICROSECOND, **TRACELENS_ONLY})
def test_tracelens_has_no_trouble_with_short_kernels(name: str) -> None:
    as_tracelens(name, load(given("traces", {**SUB_MICROSECOND, **TRACELENS_ONLY}[name])))


def test_cuda_sync_events_are_work_to_hta() -> None:
    path = "hta/critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz"
    as_hta("hta_alexnet_critical_path", load(given("traces", path)))


def test_a_difference_is_that_of_hta() -> None:
    """The published numbers of HTA's own example: control against test."""
    before = load(given("traces", "hta", "trace_diff_control_control.json.gz"))
    after = load(given("traces", "hta", "trace_diff_test_test.json.gz"))
    changes = Counter(trace_diff(before, after, definition="hta")["change"].tolist())
    assert changes == {"added": 32, "deleted": 138, "increased": 35, "decreased": 65, "unchanged": 162}


def test_steps_divide_as_in_tensorboard() -> None:
    told = {"4": (48670, 647, 121), "5": (48969, 637, 122), "6": (57576, 639, 116)}
    found = step_roles(load(given("traces", TRACES["hta_nccl_data"])))
    for row in found.to_rows():
        mine = [row[role] / 1e3 for role in ("kernel", "memcpy", "memset")]
        assert mine == pytest.approx(told[str(row["step"])], abs=1)  # it reads floats of 4.5e12 us
        assert sum(row[role] for role in row if role not in ("rank", "step")) > 219_000_000


def test_flops_are_those_of_tracelens() -> None:
    loaded = load(given("traces", TRACELENS_ONLY["tracelens_qwen_h100"]))
    mine = Counter()
    time = Counter()
    for row in roofline(loaded, "NVIDIA H100 80GB HBM3", "tracelens").to_rows():
        mine[row["name"], row["flops"] // row["calls"]] += row["calls"]
        time[row["name"], row["flops"] // row["calls"]] += row["device_ns"]
    for kind in ("GEMM", "SDPA_fwd"):
        for row in rows_of("tracelens_qwen_h100", "tracelens", f"{kind}.csv"):
            key = row["name"], round(float(row["GFLOPS_first"]) * 1e9)
            assert mine[key] >= int(row["name_count"])
            assert time[key] / 1e3 >= float(row["Kernel Time (µs)_sum"]) - 1
