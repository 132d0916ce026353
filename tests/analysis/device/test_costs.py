"""Memory, bandwidth, differences and roofline of small traces known exactly."""

from __future__ import annotations

import pytest
from tests.rules.tables import START
from tests.rules.traces import MS, US, Trace

from holter.analysis.device.bandwidth import bandwidths, bus_factor
from holter.analysis.device.memory_timeline import memory_timelines
from holter.analysis.device.operator_costs import operator_cost
from holter.analysis.device.roofline import roofline, utilization
from holter.analysis.device.trace_diff import trace_diff
from holter.schema.table import Table


def tables(trace: Trace) -> dict[str, Table]:
    return {name: Table.of(name, rows) for name, rows in trace.rows.items()}


def calls(trace: Trace, *rows: tuple[str, str, float, float]) -> None:
    for name, kind, at, length in rows:
        trace.operator(name, at, length)
        trace.rows["operators"][-1] |= {"kind": kind, "thread": 1}  # the thread that launches


@pytest.mark.parametrize(
    "shapes",
    ["[[1e3, 2], [2, 2]]", "[[-4, 8], [8, 2]]", '[["x", 2], [2, 9]]', f"[[{2**40}, 8], [8, {2**40}]]"],
)
def test_shapes_that_are_none_cost_nothing(shapes: str) -> None:
    assert operator_cost("aten::mm", f'{{"Input Dims": {shapes}, "Input type": ["float"]}}') is None


def test_more_operations_than_a_number_holds_are_borne() -> None:
    trace = Trace()
    for at in range(600):
        trace.kernel(at * MS, MS // 2, launched=at * MS)
        trace.operator("aten::mm", at * MS - US, MS // 2)
        detail = f'{{"Input Dims": [[{2**18}, {2**18}], [{2**18}, {2**18}]], "Input type": ["float"]}}'
        trace.rows["operators"][-1] |= {"thread": 1, "detail": detail}
    (row,) = roofline(tables(trace)).to_rows()
    assert (row["calls"], row["flops"]) == (600, 2**62)


def test_memory_keeps_its_peak_when_thinned_out() -> None:
    rows = [
        {"time": START + i * US, "rank": 0, "process": 1, "name": "memory cuda:0/allocated", "value": v}
        for i, v in enumerate([1.0] * 500 + [9.0] + [2.0] * 499)
    ]
    (found,) = memory_timelines({"counters": Table.of("counters", rows)})
    assert (found.peak, found.growth) == (9.0, 1.0)
    time, value = found.sampled(10)
    assert len(time) <= 10
    assert value.max() == 9.0


def test_bus_bandwidth_follows_the_collective() -> None:
    trace = Trace()
    for rank, wait in enumerate((0, 300)):
        trace.collective(
            (1000 - wait) * US, (100 + wait) * US, rank=rank, bytes=10**9, group_size=2, process_group="0"
        )
    (row,) = bandwidths(tables(trace)["kernels"]).to_rows()
    assert (row["time_ns"], row["ranks"]) == (100 * US, 2)
    assert row["algorithm_gb_per_s"] == pytest.approx(10_000)
    assert row["bus_gb_per_s"] == pytest.approx(10_000)
    assert bus_factor("allreduce", 8) == 1.75
    assert bus_factor("allgather", 8) == 0.875
    assert bus_factor("broadcast", 8) == 1.0


def test_a_difference_says_what_came_and_went() -> None:
    before, after = Trace(), Trace()
    for trace, names in ((before, "aab"), (after, "abbc")):
        for i, name in enumerate(names):
            trace.kernel(i * MS, MS, name=name)
    found = {row["name"]: row["change"] for row in trace_diff(tables(before), tables(after)).to_rows()}
    assert found == {"a": "decreased", "b": "increased", "c": "added"}
    assert trace_diff(tables(after), tables(before))["change"].tolist().count("deleted") == 1
    with pytest.raises(ValueError, match="valid: host, device, both"):
        trace_diff({}, {}, side="left")


MM = '{"Input Dims": [[128, 256], [256, 512]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}'


def test_windows_of_recorded_jobs_tell_shapes_in_their_own_words() -> None:
    recorded = (
        '{"shapes":[[512],[64,256],[256,512],[],[]],"types":["float","float","float","Scalar","Scalar"]}'
    )
    cost = operator_cost("aten::addmm", recorded)
    assert cost is not None
    assert cost.flops == 2 * 64 * 256 * 512
    assert (cost.bytes, cost.precision) == (4 * (64 * 256 + 256 * 512 + 64 * 512), "fp32")


def test_flops_come_out_of_shapes() -> None:
    cost = operator_cost("aten::mm", MM)
    assert cost is not None
    assert cost.flops == 2 * 128 * 256 * 512
    assert cost.bytes == 2 * (128 * 256 + 256 * 512 + 128 * 512)
    convolution = (
        '{"Input Dims": [[10, 64, 56, 56], [64, 64, 3, 3], [], [], [], [], [], [], []],'
        ' "Input type": ["float"], "Concrete Inputs": ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False"]}'
    )
    assert operator_cost("aten::convolution", convolution).flops == 2312110080
    assert operator_cost("aten::mm", "") is None
    assert operator_cost("aten::mm", "[" * 100_000) is None
    assert operator_cost("aten::mm", '{"Input Dims": [[1], "x"]}') is None
    assert operator_cost("aten::relu", MM) is None


def test_an_operator_made_of_others_is_counted_once() -> None:
    trace = Trace()
    inner = '{"shapes": [[4], [8, 16], [16, 4]], "types": ["float"]}'
    calls(
        trace,
        ("aten::linear", "operator", 0, 9 * US),
        ("aten::addmm", "operator", US, 7 * US),
        ("aten::baddbmm", "operator", 10 * US, 9 * US),  # its shapes were not told
        ("aten::addmm", "operator", 11 * US, 7 * US),
        ("aten::addmm", "operator", 12 * US, 5 * US),
    )
    for row in trace.rows["operators"]:
        row["detail"] = inner if row["name"] == "aten::addmm" else '{"shapes": [[8, 16], [4, 16], [4]]}'
    (row,) = roofline(tables(trace), on_host=True).to_rows()
    assert (row["name"], row["calls"], row["flops"]) == ("aten::addmm", 2, 2 * 2 * 8 * 16 * 4)
    assert (row["side"], row["host_ns"], row["device_ns"]) == ("host", 14 * US, 0)
    (row,) = roofline(tables(trace)).to_rows()
    assert (row["side"], row["host_ns"]) == ("device", 14 * US)
    assert row["tflops"] != row["tflops"], "no kernel ran"


def test_utilization_needs_a_known_device() -> None:
    trace = Trace()
    calls(trace, ("aten::mm", "operator", 0, 20 * US))
    trace.rows["operators"][-1]["detail"] = MM
    trace.kernel(10 * US, 100 * US, launched=5 * US)
    found = utilization(tables(trace), "NVIDIA H100 80GB HBM3")
    assert found is not None
    assert found.mfu_pct == pytest.approx(100 * 2 * 128 * 256 * 512 / (989e12 * 100e-6))
    assert utilization(tables(trace), "Abacus 3000") is None
    (row,) = roofline(tables(trace), "NVIDIA H100 80GB HBM3").to_rows()
    assert (row["device_ns"], row["bound"]) == (100 * US, "memory")
