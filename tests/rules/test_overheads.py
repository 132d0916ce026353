"""Rules on what takes time from training: compilation, evaluation, gaps, copies, holter itself."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.rules.overheads import WARM, every, last, spans
from tests.rules.tables import SECOND, START, found, look, samples, steps

from holter.rules import Job
from holter.rules.framework.between_step_overhead import BetweenStepOverhead
from holter.rules.framework.eval_overhead import EvalOverhead
from holter.rules.framework.first_step_slow import FirstStepSlow
from holter.rules.framework.h2d_bound import H2DBound
from holter.rules.framework.recompilation_storm import RecompilationStorm
from holter.rules.reliability.observer_overhead import ObserverOverhead
from holter.schema.table import Table

HOUR = 3600 * SECOND
NODES = {"n0": {"cpus": 4}}


# --- compilation


def compiling(at: list[int], *, count: int = 600, spent: float = 2.0) -> Table:
    compile_ = np.zeros(count, dtype=np.int64)
    compile_[at] = round(spent * SECOND)
    table = steps(0.5 + compile_ / SECOND)
    return Table({**table.columns, "compile": compile_})


@pytest.mark.parametrize(
    ("at", "severity"),
    [
        ([0, 5, 19], None),
        ([300], "info"),
        (list(range(100, 160, 10)), "warning"),
        (list(range(100, 500, 15)), "critical"),
    ],
)
def test_recompilation_after_warmup(at, severity):
    issues = found(RecompilationStorm(), steps=compiling(at))
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_a_resumed_training_may_compile_again():
    first, second = compiling([0], count=100), compiling([0, 1, 2, 3, 4, 5], count=100)
    later = Table({**second.columns, "time": second["time"] + HOUR})
    assert found(RecompilationStorm(), steps=Table.concat([first, later])) == []


# --- evaluation


@pytest.mark.parametrize(("spent", "severity"), [(5, None), (20, "info"), (50, "warning"), (120, "critical")])
def test_evaluation_by_its_share_of_whole_cycles(spent, severity):
    issues = found(EvalOverhead(), job=WARM, steps=every(100, 500, 1.0, spent, "eval"))
    assert [i.severity for i in issues] == ([severity] if severity else [])


def test_an_evaluation_before_training_does_not_count():
    issues, window = look(EvalOverhead(), job=WARM, steps=every(100, 60, 1.0, 600, "eval", offset=99))
    assert issues == []
    assert window.lack.reason == "too_few_points"


# --- between steps


def test_code_between_steps_that_nobody_named():
    table = steps([0.1] * 1000, forward=0.4, backward=0.35, optimizer=0.05)
    (issue,) = found(BetweenStepOverhead(), job=WARM, steps=table)
    assert issue.severity == "warning"
    assert issue.evidence["other_pct"] == pytest.approx(20)
    busy = steps([0.1] * 1000, forward=0.5, backward=0.4, optimizer=0.08)
    assert found(BetweenStepOverhead(), job=WARM, steps=busy) == []


def test_gaps_between_marked_steps():
    table = steps([0.1] * 400, forward=0.5, backward=0.5)
    apart = Table({**table.columns, "time": table["time"] + np.arange(400) * round(0.1 * SECOND)})
    (issue,) = found(BetweenStepOverhead(), job=WARM, steps=apart)
    assert (issue.severity, issue.evidence["gap_pct"]) == ("critical", pytest.approx(50, abs=1))


def test_steps_whose_inside_is_unknown_and_steps_of_a_tenth_of_a_millisecond_are_left_alone():
    assert found(BetweenStepOverhead(), job=WARM, steps=steps([0.1] * 1000)) == []
    tiny = steps([0.0001] * 2000, forward=0.3, backward=0.3)
    assert found(BetweenStepOverhead(), job=WARM, steps=tiny) == []
    assert [i.severity for i in found(BetweenStepOverhead(), job=WARM, steps=tiny, events=late(300))] == [
        "info"
    ]


def late(seconds: float) -> Table:
    """Make an event so many seconds after the start, so that a job has lasted so long."""
    return Table.of("events", [{"time": START + round(seconds * SECOND), "kind": "signal"}])


# --- copies to the device


def copies(share: float, *, size: float, count: int = 400) -> dict[str, Table]:
    table = steps([0.5] * count, h2d=share, forward=0.9 - share)
    return {"steps": table, "spans": spans("h2d", np.arange(count) * 0.5, 0.5 * share, value=size)}


def test_copies_that_take_as_long_as_their_bytes():
    (issue,) = found(H2DBound(), job=WARM, **copies(0.3, size=450e6))
    assert issue.severity == "critical"
    assert issue.evidence["share_pct"] == pytest.approx(30)


def test_a_copy_that_waits_for_the_gpu_is_not_blamed():
    assert found(H2DBound(), job=WARM, **copies(0.8, size=1e6)) == []
    assert found(H2DBound(), job=WARM, **copies(0.3, size=np.nan)) == []


def test_in_a_trace_only_copies_that_no_kernel_hides_count():
    table = steps([1.0] * 60)
    at = START + np.arange(60) * SECOND
    kernels = Table.of(
        "kernels", [{"time": t, "duration": 600_000_000, "rank": 0, "step": 0} for t in at.tolist()]
    )

    def judged(offset: int) -> list[str]:
        rows = [{"time": t + offset, "duration": 300_000_000, "rank": 0, "kind": "h2d"} for t in at.tolist()]
        moved = Table.of("memory_operations", rows)
        issues = found(H2DBound(), job=WARM, steps=table, kernels=kernels, memory_operations=moved)
        return [i.severity for i in issues]

    assert judged(100_000_000) == []
    assert judged(650_000_000) == ["critical"]


# --- holter itself, and the first step


def agent(cpu: float, busy: float) -> Table:
    values = {("agent.cpu", ""): [cpu] * 600, ("cpu.util", ""): [busy] * 600}
    return samples(values, interval_s=0.5)


def test_the_agent_takes_cpu_that_training_needs():
    job = Job(start=START, nodes=NODES)
    (issue,) = found(ObserverOverhead(), job=job, samples=agent(20, 95))
    assert (issue.severity, issue.node, issue.evidence["share_pct"]) == ("warning", "n0", pytest.approx(5))
    (idle,) = found(ObserverOverhead(), job=job, samples=agent(20, 30))
    assert idle.severity == "info"
    assert found(ObserverOverhead(), job=job, samples=agent(3, 95)) == []


def test_the_recorder_takes_time_of_the_training_thread():
    def end(cost_s: float) -> Table:
        row = {"time": START + 200 * SECOND, "kind": "end", "detail": json.dumps({"cost_ns": cost_s * 1e9})}
        return Table.of("events", [{"rank": 0, **row}])

    (issue,) = found(ObserverOverhead(), job=WARM, events=end(20))
    assert (issue.severity, issue.code) == ("critical", "recorder")
    assert found(ObserverOverhead(), job=WARM, events=end(0.5)) == []


def test_a_first_step_of_minutes_is_a_note_told_once():
    table = Table.concat([steps([120.0]), steps([0.5] * 60, first=1, start=START + 120 * SECOND)])
    rule = FirstStepSlow()
    state: dict = {}
    issues, _ = look(rule, job=WARM, state=state, steps=table)
    assert [i.severity for i in issues] == ["info"]
    assert look(rule, job=WARM, state=state, steps=table)[0] == []
    short = Table.concat([steps([30.0]), steps([0.01] * 60, first=1, start=START + 30 * SECOND)])
    assert found(rule, job=WARM, steps=short) == []


# --- however the data come


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        (RecompilationStorm(), {"steps": compiling(list(range(100, 500, 15)))}),
        (EvalOverhead(), {"steps": every(100, 500, 1.0, 50, "eval")}),
        (H2DBound(), copies(0.3, size=450e6)),
    ],
    ids=["compilation", "evaluation", "copies"],
)
def test_the_last_finding_does_not_depend_on_how_windows_are_cut(rule, tables):
    assert last(rule, tables, 1) == last(rule, tables, 7) == last(rule, tables, 23)
    assert last(rule, tables, 1)
