"""Idle time, launches, kernels, operators and steps of small traces known exactly."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.rules.tables import START
from tests.rules.traces import MS, US, Trace

from holter.analysis.device.idle_time import idle_time
from holter.analysis.device.kernel_statistics import (
    activity,
    kernel_precision,
    kernel_table,
    memory_table,
    precision,
)
from holter.analysis.device.launching import host_bound, launch_delays, queue_lengths
from holter.analysis.device.steps import annotated, device_step_times, histogram, step_roles
from holter.analysis.host.operator_tree import forward_backward, host, module_table, operator_table
from holter.schema.table import Table


def tables(trace: Trace) -> dict[str, Table]:
    return {name: Table.of(name, rows) for name, rows in trace.rows.items()}


def test_idle_time_names_who_was_waited_for() -> None:
    trace = Trace()
    trace.kernel(0, MS, launched=0)
    trace.kernel(3 * MS, MS, launched=2 * MS)  # asked for 1 ms after the first had ended
    trace.kernel(4 * MS + 10 * US, MS, launched=2 * MS)  # in time: 10 us to start
    trace.kernel(7 * MS, MS, launched=2 * MS)  # in time, and yet 2 ms late
    trace.kernel(9 * MS, MS)  # nobody is known to have asked
    (found,) = idle_time(tables(trace))
    assert found.host_wait_ns == 2 * MS
    assert found.kernel_wait_ns == 10 * US
    assert found.other_ns == 7 * MS - (5 * MS + 10 * US)
    assert found.unknown_ns == MS
    assert (found.host_waits.begin - START).tolist() == [MS]


def test_another_stream_fills_a_gap_unless_streams_are_asked_for() -> None:
    trace = Trace()
    trace.kernel(0, MS, launched=0)
    trace.kernel(MS, MS, launched=0, stream=9)
    trace.kernel(2 * MS, MS, launched=1.5 * MS)
    assert idle_time(tables(trace))[0].total_ns == 0
    of_streams = {found.stream: found.host_wait_ns for found in idle_time(tables(trace), "hta")}
    assert of_streams == {7: MS, 9: 0}


def test_launches_wait_in_a_queue() -> None:
    trace = Trace()
    for i in range(3):
        trace.kernel(10 * US + i * 10 * US, 10 * US, launched=i * US)
    pairs = launch_delays(tables(trace))
    assert pairs.rows == 3
    assert (pairs["begin"] - pairs["time"]).tolist() == [10 * US, 19 * US, 28 * US]
    (queue,) = queue_lengths(tables(trace))
    assert queue.longest == 3
    assert queue.length[-1] == 0


def test_a_graph_is_one_launch_of_many_kernels() -> None:
    trace = Trace()
    trace.kernel(10 * US, 5 * US, launched=0)
    trace.kernel(15 * US, 5 * US, correlation=trace.rows["kernels"][0]["correlation"])
    assert launch_delays(tables(trace)).rows == 2


def test_hand_to_mouth_is_told_from_a_full_queue() -> None:
    slow = Trace()
    for i in range(40):
        slow.kernel(i * 50 * US + 10 * US, 5 * US, launched=i * 50 * US)
    (found,) = host_bound(tables(slow))
    assert found.starved_pct > 95
    assert found.stretch_ns > 38 * 50 * US
    fast = Trace()
    for i in range(40):
        fast.kernel(100 * US + i * 50 * US, 50 * US, launched=i * US)
    (found,) = host_bound(tables(fast))
    assert found.starved_pct == 0
    assert len(found.begin) == 0


def test_kernels_are_added_up_and_the_rest_joined() -> None:
    trace = Trace()
    for i, (name, count) in enumerate({"gemm": 1, "add": 5, "copy": 2}.items()):
        for k in range(count):
            trace.kernel((10 * i + k) * US, {"gemm": 9, "add": 1, "copy": 1}[name] * US, name=name)
    by_time = kernel_table(tables(trace), most=1)
    assert by_time["name"].tolist() == ["gemm", "others"]
    assert by_time["total_ns"].tolist() == [9 * US, 7 * US]
    assert by_time["share_pct"].sum() == pytest.approx(100)
    assert kernel_table(tables(trace), by="launches")["name"].tolist() == ["add", "copy", "gemm"]
    with pytest.raises(ValueError, match="valid: time, launches"):
        kernel_table(tables(trace), by="size")
    assert kernel_table({}).rows == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>",
            "bf16",
        ),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, sum>>", "fp32"),
        ("void at::native::elementwise_kernel<c10::Half, float>", "fp16"),
        ("ampere_sgemm_128x64_tn", "fp32"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "bf16"),
        ("triton_poi_fused_0", "other"),
    ],
)
def test_precision_is_never_guessed(name: str, expected: str) -> None:
    assert precision(name) == expected


def test_shares_of_precision_activity_and_memory() -> None:
    trace = Trace()
    trace.kernel(0, 60 * US, name="ampere_sgemm_128x64_tn")
    trace.kernel(60 * US, 20 * US, name="ampere_fp16_s16816gemm")
    trace.copy(80 * US, 15 * US, bytes=15_000)
    trace.copy(95 * US, 5 * US, kind="d2h", memory="pinned")
    trace.sync(0, 100 * US)
    assert kernel_precision(tables(trace)) == {"fp32": 75.0, "fp16": 25.0}
    assert activity(tables(trace)) == {"compute": 40.0, "memory": 10.0, "sync": 50.0}
    memory = memory_table(tables(trace))
    assert memory["kind"].tolist() == ["h2d", "d2h"]
    assert memory["gb_per_s"][0] == pytest.approx(1.0)
    assert np.isnan(memory["gb_per_s"][1])


def calls(trace: Trace, *rows: tuple[str, str, float, float]) -> None:
    for name, kind, at, length in rows:
        trace.operator(name, at, length)
        trace.rows["operators"][-1] |= {"kind": kind, "thread": 1}  # the thread that launches


def test_operators_nest_and_own_their_launches() -> None:
    trace = Trace()
    calls(
        trace,
        ("nn.Module: Linear_0", "module", 0, 100 * US),
        ("aten::linear", "operator", 10 * US, 80 * US),
        ("aten::addmm", "operator", 20 * US, 60 * US),
    )
    trace.kernel(200 * US, 500 * US, launched=30 * US)
    found = {row["name"]: row for row in operator_table(tables(trace)).to_rows()}
    assert found["aten::linear"]["own_ns"] == 20 * US
    assert found["aten::linear"]["device_ns"] == 500 * US
    (module,) = module_table(tables(trace)).to_rows()
    assert (module["total_ns"], module["own_ns"], module["device_ns"]) == (100 * US, 20 * US, 500 * US)


def test_an_operator_that_calls_itself_is_counted_once() -> None:
    trace = Trace()
    calls(trace, ("aten::cat", "operator", 0, 100 * US), ("aten::cat", "operator", 10 * US, 50 * US))
    (row,) = operator_table(tables(trace)).to_rows()
    assert (row["calls"], row["total_ns"], row["own_ns"]) == (2, 100 * US, 100 * US)


def test_a_step_that_a_function_opens_lies_beside_it() -> None:
    trace = Trace()
    calls(
        trace,
        ("train", "python", 0, 1000 * US),
        ("step", "python", 10 * US, 20 * US),
        ("ProfilerStep#1", "annotation", 20 * US, 500 * US),
        ("aten::mm", "operator", 100 * US, 50 * US),
    )
    tree = host(tables(trace))
    words = tree.words(np.arange(len(tree.begin)))
    above = {word: words[p] if p >= 0 else "" for word, p in zip(words, tree.parent.tolist(), strict=True)}
    assert above == {"train": "", "step": "train", "ProfilerStep#1": "train", "aten::mm": "ProfilerStep#1"}


def test_arrows_join_forward_and_backward() -> None:
    trace = Trace()
    calls(trace, ("aten::mm", "operator", 0, 10 * US), ("MmBackward0", "operator", 50 * US, 10 * US))
    flows = Table.of(
        "flows",
        [
            {
                "time": START,
                "duration": 50 * US,
                "rank": 0,
                "thread": 1,
                "target": 1,
                "kind": "forward_backward",
            }
        ],
    )
    tree = host(tables(trace))
    links = forward_backward(tree, flows)
    assert (tree.words(links.forward), tree.words(links.backward)) == (["aten::mm"], ["MmBackward0"])


def test_a_step_on_the_device_lasts_to_the_end_of_what_it_launched() -> None:
    trace = Trace()
    for number in range(3):
        at = number * 10 * MS
        trace.kernel(at + 12 * MS, 3 * MS, launched=at + MS)
        trace.kernel(at + 15 * MS, 2 * MS, launched=at + 2 * MS)
    spans = [
        {"time": START + n * 10 * MS, "duration": 10 * MS, "rank": 0, "step": n, "phase": "step"}
        for n in range(4)
    ]
    given = {**tables(trace), "spans": Table.of("spans", spans)}
    found = device_step_times(given)
    assert found["device_duration"].tolist() == [5 * MS, 5 * MS, 5 * MS, 0]
    assert (found["device_time"] - found["time"]).tolist() == [12 * MS, 12 * MS, 12 * MS, 0]
    assert found["works"].tolist() == [2, 2, 2, 0]
    roles = step_roles(given)
    assert roles["kernel"].tolist() == [0, 5 * MS, 5 * MS, 5 * MS]
    assert [sum(row[role] for role in row if role not in ("rank", "step")) for row in roles.to_rows()] == [
        10 * MS
    ] * 4


def test_annotations_have_histograms_with_outliers() -> None:
    trace = Trace()
    calls(trace, *[("augment", "annotation", i * 10 * MS, (9 if i == 7 else 1) * MS) for i in range(20)])
    calls(trace, ("other", "annotation", 0, MS))
    found = annotated(tables(trace), re.compile("^augment$"))
    assert found.rows == 20
    counted = histogram(found["duration"], bins=8)
    assert counted.counts.tolist() == [19, 0, 0, 0, 0, 0, 0, 1]
    assert found["duration"][counted.outliers].tolist() == [9 * MS]
    with pytest.raises(ValueError, match="bins is 0"):
        histogram([1], bins=0)
    assert histogram([]).counts.sum() == 0
