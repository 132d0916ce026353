"""Jobs that other programs slowed: what of their step times can still be judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holter.analysis.jobs.disturbance import READ, Conditions, conditions, disturbance
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

QUIET = Conditions(step_ms=20, cpu_ms=20, waited_pct=0.5, foreign_cores=0.0)
BUSY = Conditions(step_ms=33, cpu_ms=20, waited_pct=40, foreign_cores=1.5)
UNREAD = Conditions(step_ms=33, unread=True)
COMPANY = Conditions(step_ms=30, cpu_ms=30, waited_pct=0.5, foreign_cores=0.5, cores=2)
SECOND = 10**9


def judged(before, after, ratio, most=0.05):
    return disturbance(before, after).judge(ratio * 0.99, ratio * 1.01, most)


def test_nothing_disturbs_jobs_on_a_quiet_machine_or_of_unknown_conditions():
    assert disturbance(QUIET, QUIET) is None
    assert disturbance(Conditions(), Conditions()) is None
    assert disturbance(UNREAD, UNREAD) is None
    assert disturbance(Conditions(), UNREAD) is None


def test_waits_that_a_job_makes_itself_are_no_disturbance():
    own = replace(BUSY, foreign_cores=0.1, several_threads=True)
    assert disturbance(QUIET, own) is None
    assert disturbance(QUIET, replace(own, foreign_cores=0.3)) is not None


@pytest.mark.parametrize(
    ("before", "after", "ratio", "result"),
    [
        (QUIET, BUSY, 1.65, "disturbed"),
        (QUIET, BUSY, 1.0, "pass"),  # slowed from outside, and not slower
        (BUSY, QUIET, 1.2, "regression"),  # slower than a job that was slowed
        (BUSY, QUIET, 0.7, "disturbed"),  # without its wait, the baseline may be faster
        (BUSY, QUIET, 0.5, "pass"),  # even without its wait, the baseline is slower
        (BUSY, replace(BUSY, waited_pct=60), 1.5, "disturbed"),
        (BUSY, BUSY, 1.2, "disturbed"),  # within what equal work differs under load
        (BUSY, replace(BUSY, step_ms=66, cpu_ms=40), 2.0, "regression"),
        (BUSY, replace(BUSY, step_ms=66, waited_pct=45), 2.0, "regression"),  # it sleeps
        (BUSY, BUSY, 1.0, "pass"),
        (replace(BUSY, waited_pct=60), replace(BUSY, waited_pct=61, step_ms=66), 2.0, "disturbed"),
        (QUIET, replace(QUIET, throttled_pct=30), 1.3, "disturbed"),
        (QUIET, replace(QUIET, gpu_slowed_pct=30), 1.3, "disturbed"),
        (replace(QUIET, clock=1.2), replace(QUIET, clock=0.9), 1.3, "disturbed"),
        (replace(QUIET, throttled_pct=30), replace(QUIET, throttled_pct=31, step_ms=30), 1.5, "regression"),
        (QUIET, replace(QUIET, workers_waited_pct=30, foreign_cores=1.0), 1.3, "disturbed"),
        (QUIET, UNREAD, 1.3, "disturbed"),
        (QUIET, UNREAD, 1.0, "pass"),
        (QUIET, COMPANY, 1.5, "disturbed"),  # another program on the other half of the core
        (replace(BUSY, cores=2), COMPANY, 1.2, "disturbed"),
        (COMPANY, QUIET, 0.7, "disturbed"),
        (UNREAD, QUIET, 1.3, "regression"),
        (UNREAD, QUIET, 0.7, "disturbed"),
    ],
)
def test_a_disturbance_makes_a_job_slower_and_never_faster(before, after, ratio, result):
    assert judged(before, after, ratio) == result


@pytest.mark.parametrize(
    "change",
    [{"cores": 64}, {"cpu_ms": 20}, {"cpu_ms": 42}, {"cores": None}, {"step_ms": 400}],
    ids=["small load", "no more CPU time", "more than half a core costs", "unknown cores", "a small part"],
)
def test_programs_on_other_cores_do_not_explain_every_slower_job(change):
    assert disturbance(QUIET, COMPANY) is not None
    assert disturbance(QUIET, replace(COMPANY, **change)) is None


def test_threads_whose_wait_is_unknown_are_never_under_equal_load():
    many = replace(BUSY, several_threads=True)
    assert judged(many, replace(many, step_ms=66), 2.0) == "disturbed"
    assert judged(many, QUIET, 0.5) == "disturbed"


def test_a_change_stands_that_the_disturbance_works_against():
    assert disturbance(QUIET, BUSY).stands(0.5, 0.6)
    assert not disturbance(QUIET, BUSY).stands(1.5, 1.6)
    assert disturbance(BUSY, QUIET).stands(1.5, 1.6)
    assert not disturbance(BUSY, QUIET).stands(0.5, 0.6)
    assert not disturbance(QUIET, BUSY).stands(0.9, 1.1)


def table(rows):
    listed = [
        {"time": at * SECOND, "metric": metric, "device": device, "value": value, "node": "n"}
        for at in range(1, 10)
        for metric, device, value in rows
    ]
    return Table.of("samples", listed)


def steps():
    count, duration = 450, np.full(450, 20_000_000, np.int64)
    zero = {part: np.zeros(count, np.int64) for part in BREAKDOWN}
    return Table(
        {
            "time": SECOND + np.cumsum(duration) - duration,
            "duration": duration,
            "rank": np.zeros(count, np.int32),
            "step": np.arange(count, dtype=np.int32),
            "compile": np.zeros(count, np.int64),
            **zero,
        }
    )


def test_a_job_without_readings_is_unread_if_there_was_time_for_them():
    def seen(interval_ms, rows):
        return conditions(steps(), lambda begin, end: table(rows), {}, interval_ms)

    assert seen(500, []).unread
    assert not seen(5000, []).unread  # too short
    assert not seen(None, []).unread  # imported
    assert not seen(500, [("cpu.util", "", 50.0)]).unread  # recorded without waits


def test_cpu_time_is_that_of_the_steps_that_the_readings_cover():
    slow_first = steps()
    slow_first.columns["duration"][:100] = 60_000_000
    ends = SECOND + np.cumsum(slow_first["duration"])
    slow_first.columns["time"][:] = ends - slow_first["duration"]
    listed = [
        {"time": at, "metric": metric, "device": "trainer", "value": value, "node": "n"}
        for at, core in ((8 * SECOND, 5.0), (9 * SECOND, 50.0), (12 * SECOND, 40.0))
        for metric, value in (("proc.cpu", core), ("proc.count", 1.0))
    ]
    seen = conditions(slow_first, lambda begin, end: Table.of("samples", listed), {})
    # The reading at 8 s covers time before it; the others cover one and three seconds of 20-ms steps.
    assert seen.cpu_ms == pytest.approx(0.425 * 20)


def test_conditions_come_from_the_readings_within_the_steady_steps():
    rows = [
        ("proc.cpu.delay", "trainer", 40.0), ("proc.cpu", "trainer", 60.0), ("proc.count", "trainer", 1.0),
        ("proc.cpu", "other", 10.0), ("agent.cpu", "", 5.0), ("cpu.util", "", 100.0),
        ("other.cpu", "stress (me)", 90.0), ("cgroup.throttled_pct", "", 7.0),
        ("cpu.core.cycles", "cpu0", 2.4e9), ("cpu.core.ref_cycles", "cpu0", 2e9),
    ]  # fmt: skip
    assert {metric for metric, _, _ in rows} <= set(READ)
    seen = conditions(steps(), lambda begin, end: table(rows), {"n": {"cpus": 2}})
    assert seen.step_ms == pytest.approx(20)
    assert seen.cpu_ms == pytest.approx(12)
    assert seen.waited_pct == pytest.approx(40)
    assert seen.foreign_cores == pytest.approx(1.25)
    assert seen.cores == 2
    assert seen.programs == ("stress (me)",)
    assert seen.throttled_pct == pytest.approx(7)
    assert seen.clock == pytest.approx(1.2)
    assert not seen.several_threads
    more = conditions(
        steps(), lambda begin, end: table([*rows[2:], *[(m, d, 90.0) for m, d, _ in rows[:2]]]), {}
    )
    assert more.several_threads
    assert more.foreign_cores is None


def test_a_job_without_readings_has_its_step_time_alone():
    assert conditions(steps(), lambda begin, end: Table.empty("samples"), {}) == Conditions(step_ms=20)
    none = steps().where(np.zeros(450, bool))
    assert conditions(none, lambda begin, end: Table.empty("samples"), {}) == Conditions()
