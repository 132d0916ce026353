"""The critical path of small traces known exactly, and that it is always one chain."""

from __future__ import annotations

import csv

import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from tests.analysis.kineto import given, load
from tests.rules.traces import MS, US, Trace

from holter.analysis.device.critical_path import critical_path, path_shares
from holter.analysis.device.hta_path import PARTS, hta_critical_path
from holter.schema.table import Table


def path(trace: Trace) -> Table:
    return critical_path({name: Table.of(name, rows) for name, rows in trace.rows.items() if name != "spans"})


def pieces(found: Table) -> list[tuple[str, int]]:
    return list(zip(found["part"].tolist(), found["duration"].tolist(), strict=True))


def test_a_full_queue_is_a_chain_of_kernels() -> None:
    trace = Trace()
    for i in range(3):
        trace.kernel(100 * US + i * MS, MS - 10 * US, launched=i * US)
    found = pieces(path(trace))
    assert found[-5:] == [
        ("compute", 990 * US),
        ("kernel_delay", 10 * US),
        ("compute", 990 * US),
        ("kernel_delay", 10 * US),
        ("compute", 990 * US),
    ]


def test_a_host_that_waits_hands_the_path_to_the_device_and_back() -> None:
    trace = Trace()
    trace.kernel(100 * US, MS, launched=50 * US)
    trace.sync(200 * US, 950 * US)  # until 50 us after the kernel's end
    trace.kernel(2 * MS, MS, launched=1.9 * MS)
    found = pieces(path(trace))
    assert found == [
        ("compute", MS),
        ("sync", 50 * US),
        ("host", 750 * US),
        ("launch_delay", 100 * US),
        ("compute", MS),
    ]
    assert path_shares(path(trace))["compute"] > 60


def test_without_device_work_there_is_no_path() -> None:
    assert critical_path({}).rows == 0


@settings(max_examples=50, deadline=None)
@hypothesis.given(
    st.lists(
        st.tuples(st.integers(0, 900), st.integers(1, 90), st.integers(0, 100)), min_size=1, max_size=30
    ),
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 90)), max_size=5),
)
def test_it_is_one_chain_to_the_last_end(
    kernels: list[tuple[int, int, int]], syncs: list[tuple[int, int]]
) -> None:
    trace = Trace()
    for at, length, ahead in kernels:
        trace.kernel((200 + at) * US, length * US, launched=(200 + at - ahead) * US)
    for at, length in syncs:
        trace.sync((200 + at) * US, length * US)
    found = path(trace)
    end = found["time"] + found["duration"]
    assert (found["time"][1:] == end[:-1]).all()
    last = max(row["time"] + row["duration"] for row in trace.rows["kernels"])
    assert end[-1] == last
    assert found["time"][0] == min(row["time"] for row in trace.rows["kernels"])


def test_htas_own_path_to_the_microsecond() -> None:
    with given("expected/hta_alexnet_critical_path/hta/critical_path_summary.csv").open() as file:
        theirs = {row["bound_by"]: float(row["duration"]) for row in csv.DictReader(file)}
    name = "critical_path_alexnet_benchmark_result_2869224_1695835535_trace.json.gz"
    found = hta_critical_path(load(given("traces/hta", name)), "measure|forward", 1)
    whole = int(found["duration"].sum())
    assert whole == 35_834_000
    for part in PARTS:
        mine = 100 * int(found["duration"][found["part"] == part].sum()) / whole
        assert mine == pytest.approx(theirs.get(part, 0.0), abs=1e-9)
    allocated = found["name"] == "cudaMalloc"
    assert (int(allocated.sum()), int(found["duration"][allocated].sum())) == (4, 31_525_000)


def test_htas_path_waits_for_launches_kernels_and_the_device() -> None:
    trace = Trace()
    trace.operator("aten::mm", 0, 100 * US)
    trace.kernel(40 * US, 300 * US, launched=10 * US, name="gemm")
    trace.kernel(350 * US, 100 * US, launched=60 * US, name="ncclDevKernel")
    found = hta_critical_path(trace.tables, "")
    assert [(part, ns // US) for part, ns in zip(found["part"], found["duration"], strict=True) if ns] == [
        ("gpu_kernel_launch_overhead", 30),
        ("gpu_compute_bound", 300),
        ("gpu_kernel_kernel_overhead", 10),
        ("gpu_communication_bound", 100),
    ]
    assert hta_critical_path(trace.tables, "no such annotation").rows == 0
    assert hta_critical_path({}).rows == 0
