"""Tests of the changes of step time and resources."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.rules.tables import MIB, SECOND, START, samples, steps

from holter.analysis.verdict.changes import resource_changes, step_changes
from holter.schema.table import Table


def after(table, seconds, **parts):
    """Append steps to a table."""
    start, first = int(table["time"][-1] + table["duration"][-1]), int(table["step"][-1]) + 1
    return Table.concat([table, steps(seconds, first=first, start=start, **parts)])


def noisy(seconds, count, seed=0):
    return seconds * (1 + np.random.default_rng(seed).normal(0, 0.03, count))


def test_the_change_names_step_time_size_and_part():
    table = after(steps(noisy(0.020, 400), forward=1.0), noisy(0.031, 600), forward=0.64, data_loading=0.36)
    (change,) = step_changes(table)
    assert change.step == 400
    assert change.time == int(table["time"][400])
    assert (change.before, change.after) == (pytest.approx(20, rel=0.02), pytest.approx(31, rel=0.02))
    assert (change.part, change.until_step) == ("data_loading", None)
    assert change.grown_ms["data_loading"] == pytest.approx(11.2, rel=0.03)
    assert change.cost_pct == pytest.approx(100 * 600 * 11 / (400 * 20 + 600 * 31), rel=0.05)
    said = r"since step 400 \(\d\d:\d\d\) steps take 31 ms instead of 20 ms; data loading grew by 11\.\d ms"
    assert re.fullmatch(said, change.text), change.text


def test_a_change_that_ended_names_its_end():
    table = after(after(steps(noisy(0.02, 400)), noisy(0.04, 100, 1)), noisy(0.02, 300, 2))
    (change,) = step_changes(table)
    assert (change.step, change.until_step) == (400, 499)
    assert "to step 499 steps took 40" in change.text


def test_a_change_in_the_first_hundred_steps_is_found_unless_ready_batches_explain_it():
    slower = after(steps(noisy(0.02, 50), forward=1.0), noisy(0.03, 900), forward=1.0)
    (change,) = step_changes(slower)
    assert (change.step, change.part, change.until_step) == (50, "forward", None)
    waits = after(steps(noisy(0.02, 50), forward=1.0), noisy(0.03, 900), forward=0.67, data_loading=0.33)
    assert step_changes(waits) == []
    (later,) = step_changes(after(waits, noisy(0.045, 900), forward=0.78, data_loading=0.22))
    assert (later.step, later.part) == (950, "forward")


def test_evaluations_and_checkpoints_are_listed_elsewhere():
    table = steps(noisy(0.02, 400), forward=1.0)
    for _ in range(5):
        table = after(after(table, [0.2] * 25, forward=0.1, eval=0.9), noisy(0.02, 100), forward=1.0)
    assert step_changes(table) == []
    assert step_changes(Table.empty("steps")) == []


def test_trainings_one_after_the_other_and_other_ranks_are_told_apart():
    first = steps(noisy(0.02, 300))
    second = steps(noisy(0.05, 300), start=int(first["time"][-1]) + SECOND)
    other = steps(noisy(0.09, 100), rank=1)
    assert step_changes(Table.concat([first, second, other])) == []


LOOP = steps([0.1] * 1000)
"""A hundred seconds."""


def grown(metric, values, device="trainer", *, interval_s=0.5):
    found = resource_changes(samples({(metric, device): values}, interval_s=interval_s), LOOP)
    return found[0] if found else None


def test_resources_that_grow_are_named_with_their_begin():
    files = np.concatenate([np.full(100, 80.0), 80 + np.arange(100) * 5.0])
    change = grown("proc.files", files)
    assert (change.kind, change.what, change.unit) == ("growth", "proc.files", "files")
    assert change.per_s == pytest.approx(10, rel=0.05)
    assert change.step == pytest.approx(500, abs=60)
    assert change.text.startswith("open files grew steadily since step ")
    assert "from 80 to 5" in change.text


def test_small_growth_noise_and_the_begin_of_the_loop_are_no_change():
    random = np.random.default_rng(0)
    assert grown("proc.files", 80 + np.arange(200) * 0.1) is None
    assert grown("proc.private", 2e9 + random.normal(0, 50 * MIB, 200)) is None
    assert grown("proc.threads", np.minimum(np.arange(200) * 10.0, 150)) is None
    assert grown("cpu.util", np.arange(200.0), device="") is None
    assert (
        resource_changes(samples({("proc.files", "trainer"): np.arange(200.0)}), Table.empty("steps")) == []
    )


def test_a_level_that_rises_once_and_stays_is_no_growth():
    change = grown("proc.private", np.repeat([1e9, 3e9], [120, 80]))
    assert (change.kind, change.per_s) == ("level", None)
    assert change.step == pytest.approx(600, abs=10)
    assert change.text.startswith("host memory rose from 1,000 MB to 3,000 MB at step ")


def test_roles_are_summed_and_gpus_are_not():
    ramp = np.arange(200) * 1e8
    series = {
        ("gpu.mem.used", "gpu0"): 1e9 + ramp,
        ("gpu.mem.used", "gpu1"): np.full(200, 1e9),
        ("proc.private", "trainer"): 1e9 + ramp,
        ("proc.private", "worker"): 1e9 - ramp,
    }
    (change,) = resource_changes(samples(series), LOOP)
    assert (change.what, change.device) == ("gpu.mem.used", "gpu0")
    assert change.text.startswith("GPU memory of gpu0 grew")


def test_the_begin_is_on_the_clock_of_the_job():
    assert START < grown("proc.threads", 10 + np.arange(200) * 2.0).time < START + 101 * SECOND
