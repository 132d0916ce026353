"""Tests of the rule CPUContention, and of what it leaves to CPUOversubscription."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import START, found, look, samples, severities

from holter.rules import Job
from holter.rules.system.cpu_contention import CPUContention
from holter.rules.system.cpu_oversubscription import CPUOversubscription
from holter.schema.table import Table

COUNT = 120


def machine(*, delay, own, util=98.0, cores=2, **others):
    """Make a minute of a node: the wait of the trainers, the CPU of the job, and that of other programs."""
    series = {("cpu.core.util", f"cpu{i}"): util for i in range(cores)}
    series |= {("cpu.util", ""): util, ("proc.cpu", "trainer"): own, ("proc.count", "trainer"): 1.0}
    series |= {("other.cpu", f"{name} (ann)"): used for name, used in others.items()}
    series |= {("proc.threads", "trainer"): 17.0, ("proc.count", "worker"): 4.0, ("cpu.load1", ""): 9.0}
    if delay is not None:
        series["proc.cpu.delay", "trainer"] = delay
    return samples({place: np.full(COUNT, value) for place, value in series.items()})


@pytest.mark.parametrize(
    ("delay", "expected"), [(4, []), (15, ["info"]), (40, ["warning"]), (70, ["critical"])]
)
def test_the_wait_for_cores_of_others_is_judged_by_degrees(delay, expected):
    table = machine(delay=delay, own=60.0, stress=130.0)
    assert severities(found(CPUContention(), samples=table)) == expected
    assert found(CPUOversubscription(), samples=table) == []


def test_it_names_the_other_programs_and_their_cores():
    (issue,) = found(CPUContention(), samples=machine(delay=45, own=60.0, stress=110.0, vim=25.0))
    assert issue.summary == (
        "the training waits for a core 45 % of the time; programs outside of the job use 1.4 of 2 cores: "
        "stress (ann) uses 1.1, vim (ann) uses 0.2"
    )


@pytest.mark.parametrize(
    ("delay", "expected"), [(4, []), (15, ["info"]), (40, ["warning"]), (70, ["critical"])]
)
def test_a_job_that_competes_with_itself_is_oversubscribed(delay, expected):
    table = machine(delay=delay, own=190.0)
    assert found(CPUContention(), samples=table) == []
    issues = found(CPUOversubscription(), samples=table)
    assert severities(issues) == expected
    for issue in issues:
        assert issue.summary.endswith("the job has 17 threads in 5 processes on 2 cores")
        assert issue.advice.endswith("For 2 cores and 1 trainer: OMP_NUM_THREADS=1, num_workers=1.")


def test_a_process_that_begins_to_train_counts_once():
    early = np.arange(COUNT) < COUNT // 4
    roles = {"other": np.where(early, 60.0, np.nan), "trainer": np.where(early, np.nan, 60.0)}
    table = machine(delay=40, own=60.0, stress=130.0)
    table = Table.concat(
        [
            table.where(table["metric"] != "proc.cpu"),
            samples({("proc.cpu", role): values for role, values in roles.items()}),
        ]
    )
    assert severities(found(CPUContention(), samples=table)) == ["warning"]
    assert found(CPUOversubscription(), samples=table) == []


def test_a_quota_counts_as_cores():
    nodes = {"n0": {"cpus": 2, "cpu_quota": 1.0}}
    job = Job(start=START, nodes=nodes)
    (issue,) = found(CPUOversubscription(), job=job, samples=machine(delay=40, own=190.0))
    assert "For 1 core and 1 trainer: OMP_NUM_THREADS=1" in issue.advice


def test_full_cores_without_a_wait_are_well_used():
    for rule in (CPUContention(), CPUOversubscription()):
        assert found(rule, samples=machine(delay=2, own=195.0, util=99.0)) == []


def test_a_kernel_that_does_not_count_is_named():
    issues, window = look(CPUContention(), samples=machine(delay=None, own=60.0, stress=130.0))
    assert (issues, window.lack.reason) == ([], "no_input")


def test_the_wait_of_other_roles_is_not_that_of_the_training():
    waits = {("proc.cpu.delay", role): np.full(COUNT, 50.0) for role in ("worker", "other")}
    for rule, own in ((CPUContention(), 60.0), (CPUOversubscription(), 190.0)):
        table = Table.concat([machine(delay=4, own=own), samples(waits)])
        assert found(rule, samples=table) == []
