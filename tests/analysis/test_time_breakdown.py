"""Busy, computing, communicating, idle: worked by hand, and to the microsecond what the known tools say."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from tests.analysis.kineto import given, load
from tests.rules.traces import MS, US, Trace

from holter.analysis.device_work import COMPUTE, Work, device_work
from holter.analysis.time_breakdown import TimeBreakdown, time_breakdown
from holter.schema.table import Table

TRACES = {
    "hta_df_index_resolver": "hta/df_index_resolver_df_index_resolver.json.gz",
    "hta_amd_mi250_minitoy": "hta/amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta_nccl_data": "hta/nccl_parser_config_nccl_data.json.gz",
    "hta_negative_queue_rank0of16": "hta/negative_queue_length_values_check_rank0.json.gz",
    "hta_trace_diff_control": "hta/trace_diff_control_control.json.gz",
    "hta_trace_diff_test": "hta/trace_diff_test_test.json.gz",
    "param_linear": "param/linear_kineto.json.gz",
    "tracelens_ddp_resnet18_mi300": "tracelens/mi300_ddp_resnet18_no_pool_train_resnet18.json.gz",
    "tracelens_owlv2_mi300": "tracelens/mi300_google_owlv2-large-patch14-ensemble__1016001.json.gz",
}
"""Traces of which HTA says what its definition says."""
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


def tables(trace: Trace) -> dict[str, Table]:
    return {name: Table.of(name, rows) for name, rows in trace.rows.items()}


def test_time_adds_up_and_overlap_is_told() -> None:
    trace = Trace()
    trace.kernel(0, 10 * MS)
    trace.collective(5 * MS, 10 * MS)  # half of it behind the kernel
    trace.copy(14 * MS, 3 * MS)  # 1 ms of it behind the collective
    trace.kernel(20 * MS, 5 * MS)
    (found,) = time_breakdown(tables(trace))
    assert found.span_ns == 25 * MS
    assert found.compute_ns == 15 * MS
    assert (found.communication_ns, found.communication_exposed_ns) == (10 * MS, 5 * MS)
    assert found.overlap_pct == 50.0
    assert (found.memory_ns, found.memory_exposed_ns) == (3 * MS, 2 * MS)
    assert found.idle_ns == 3 * MS
    assert found.active_pct == 88.0


def test_devices_and_ranks_are_kept_apart() -> None:
    trace = Trace()
    for rank in (1, 0):
        for device in (0, 1):
            trace.kernel(device * MS, (1 + rank) * MS, rank=rank, device=device)
    found = time_breakdown(tables(trace))
    assert [(x.rank, x.device, x.busy_ns) for x in found] == [
        (0, 0, MS),
        (0, 1, MS),
        (1, 0, 2 * MS),
        (1, 1, 2 * MS),
    ]


def test_nothing_ran() -> None:
    assert time_breakdown({}) == []


def test_an_unknown_definition_is_refused() -> None:
    with pytest.raises(ValueError, match="valid: all, hta, tracelens"):
        time_breakdown({}, "nsight")


def test_hta_drops_what_was_launched_in_the_last_step() -> None:
    trace = Trace()
    for number in range(2):
        trace.operator(f"ProfilerStep#{number}", number * 10 * MS, 10 * MS)
        trace.kernel(number * 10 * MS + MS, 2 * MS, launched=number * 10 * MS)
    trace.kernel(8 * MS, MS)  # nobody is known to have launched it
    for row in trace.rows["operators"]:
        row["kind"] = "annotation"
    (all_of_it,) = time_breakdown(tables(trace))
    (as_hta,) = time_breakdown(tables(trace), "hta")
    assert (all_of_it.span_ns, all_of_it.busy_ns) == (12 * MS, 5 * MS)
    assert (as_hta.span_ns, as_hta.busy_ns) == (2 * MS, 2 * MS)


def test_tracelens_counts_a_fill_as_compute() -> None:
    trace = Trace()
    trace.copy(0, 5 * US, kind="memset")
    (found,) = time_breakdown(tables(trace), "tracelens")
    assert (found.compute_ns, found.memory_ns) == (5 * US, 0)


def microseconds(found: TimeBreakdown) -> list[int]:
    parts = (found.idle_ns, found.compute_ns, found.non_compute_ns, found.span_ns)
    assert all(part % 1000 == 0 for part in parts)
    return [part // 1000 for part in parts]


def expected(name: str) -> list[int]:
    with given("expected", name, "hta", "temporal_breakdown.csv").open() as file:
        row = next(csv.DictReader(file))
    return [int(float(row[f"{part}_time(us)"])) for part in ("idle", "compute", "non_compute", "kernel")]


@pytest.mark.parametrize("name", TRACES)
def test_it_is_what_hta_says_to_the_microsecond(name: str) -> None:
    (found,) = time_breakdown(load(given("traces", TRACES[name])), "hta")
    assert microseconds(found) == expected(name)
    with given("expected", name, "hta", "comm_comp_overlap.csv").open() as file:
        overlap = next(csv.DictReader(file))["comp_comm_overlap_pctg"]
    assert (round(found.overlap_pct, 2) if found.overlap_pct is not None else None) == (
        float(overlap) if overlap else None
    )


def test_it_is_what_hta_says_of_eight_ranks() -> None:
    with given("expected", "param_dlrm_8rank", "hta", "temporal_breakdown.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        rank = int(row["rank"])
        (path,) = given("traces", "param", "dlrm_8rank").glob(f"worker{rank}_*")
        (found,) = time_breakdown(load(path, rank), "hta")
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


@pytest.mark.parametrize("name", {**TRACES, **SUB_MICROSECOND, **TRACELENS_ONLY})
def test_it_is_what_tracelens_says(name: str) -> None:
    folder = given("expected", name)
    files = [folder / kind / "gpu_timeline.csv" for kind in ("tracelens_incl_unlinked", "tracelens")]
    file = next((path for path in files if path.exists()), None)
    if file is None:
        pytest.skip(f"TraceLens fails on {name}")
    with Path(file).open() as lines:
        told = {row["type"]: float(row["time ms"]) for row in csv.DictReader(lines)}
    path = given("traces", {**TRACES, **SUB_MICROSECOND, **TRACELENS_ONLY}[name])
    (found,) = time_breakdown(load(path), "tracelens")
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
