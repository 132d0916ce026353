"""What a profiled window adds to a verdict: operators, launches, communication; without the profiler."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.analysis.verdict.facts import facts_of
from tests.rules.traces import MS, US, Trace

from holter.analysis.verdict.gathering import gather
from holter.analysis.verdict.job_verdict import verdict
from holter.analysis.verdict.profiled_steps import ProfiledSteps, profiled_steps
from holter.schema.table import Table

STEPS = range(40, 44)


def window(length: float = 10 * MS) -> Trace:
    trace = Trace()
    for number, step in enumerate(STEPS):
        trace._add("spans", number * length, length, 0, phase="step", worker=-1, thread=0, step=step)
    return trace


def looked(trace: Trace, step_ms: float | None = 10.0) -> ProfiledSteps:
    found = profiled_steps(trace.tables, step_ms)
    assert found is not None
    return found


def launching(kernel: float, length: float = 10 * MS) -> Trace:
    """Steps in which the host asks for 25 kernels in a row, each after the one before had ended long ago."""
    trace = window(length)
    for number in range(len(STEPS)):
        for i in range(25):
            at = number * length + i * length / 25
            trace.operator("aten::mul", at, 30 * US)
            trace.kernel(at + 15 * US, kernel, launched=at + 5 * US)
    return trace


def communicating() -> Trace:
    trace = window()
    for number in range(len(STEPS)):
        for i in range(20):
            trace.kernel(number * 10 * MS + i * 300 * US, 299 * US, launched=number * 10 * MS)
        trace.collective(number * 10 * MS + 6 * MS, 3.9 * MS)
    return trace


def test_operators_are_named_by_their_own_time():
    trace = window()
    for number in range(len(STEPS)):
        trace.operator("aten::linear", number * 10 * MS, 8 * MS)
        trace.operator("aten::addmm", number * 10 * MS + MS, 6 * MS)
    found = looked(trace)
    assert (found.first_step, found.last_step, found.device, found.kernels) == (40, 43, None, None)
    assert list(found.operators.to_rows()) == [
        {"name": "aten::addmm", "pct": pytest.approx(60), "total_ms": 24.0, "count": 4},
        {"name": "aten::linear", "pct": pytest.approx(20), "total_ms": 8.0, "count": 4},
    ]
    (said,) = found.evidence()
    assert said.text == "top operators of the host in steps 40 to 43: aten::addmm 60 %, aten::linear 20 %"
    assert said.window is not None
    assert (said.window["step_start"], said.window["step_end"]) == (40, 43)


def test_a_job_whose_kernels_wait_for_launches_is_found_guilty_by_them():
    facts = facts_of("after")
    assert verdict(facts).suspect != "framework_overhead"
    look = looked(launching(20 * US), step_ms=10.0)
    found = verdict(replace(facts, profiled=look, kernels=look.kernels))
    assert "framework_overhead" in (found.suspect, *found.also)
    told = " ".join(item.text for item in found.evidence)
    assert "the host has not launched the next work" in told
    assert "steps 40 to 43" in told
    assert any("torch.compile" in advice.text for advice in found.advice)


def test_a_busy_accelerator_accuses_nobody():
    look = looked(launching(395 * US))
    assert look.kernels is not None
    assert look.kernels.busy_pct == pytest.approx(99, abs=1)
    facts = facts_of("after")
    assert verdict(replace(facts, profiled=look)).suspect == verdict(facts).suspect


def test_the_profilers_own_time_is_no_idle_time():
    slow, plain = looked(launching(200 * US, 20 * MS), step_ms=10.0), looked(launching(200 * US, 10 * MS))
    assert slow.device is not None
    assert plain.device is not None
    assert sum(slow.device.breakdown.values()) == pytest.approx(100)
    assert slow.device.busy_pct == pytest.approx(plain.device.busy_pct, rel=0.01)
    assert slow.device.breakdown["host"] == pytest.approx(plain.device.breakdown["host"], abs=2)
    unknown = looked(launching(200 * US, 20 * MS), step_ms=None)
    assert unknown.device is not None
    assert unknown.device.busy_pct == pytest.approx(25, abs=1)


def test_exposed_communication_is_seen_where_the_host_does_not_wait_for_it():
    look = looked(communicating())
    found = verdict(replace(facts_of("after"), profiled=look))
    assert found.suspect == "communication"
    assert found.share_pct == pytest.approx(39, abs=0.5)


def test_without_a_window_nothing_is_said():
    assert profiled_steps(Trace().tables, 10.0) is None
    assert gather(Table.empty("steps"), profiled=Trace().tables).profiled is None
