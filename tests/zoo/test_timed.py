"""Trainings that measure their own cause, under `holter run`; `benchmarks/zoo.py` runs all of them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from tests.zoo.timed import beside, loading, own, sound, whole
from tests.zoo.timed.cases import HEALTHY, JOBS, SICK
from tests.zoo.timed.judging import mistakes, run

FINE = ("healthy", "contention")
HERE = ("reports_to_a_server", "evaluates_without_eval", "starts_late")
"""The trainings that a test runs, each a few seconds."""


def test_there_are_many() -> None:
    assert len({case.training for case in SICK}) == len(SICK) >= 30
    assert len(set(HEALTHY)) >= 15


def test_every_training_exists() -> None:
    modules = {"beside": beside, "loading": loading, "own": own, "sound": sound, "whole": whole}
    for training in [*(case.training for case in SICK), *HEALTHY]:
        module, _, name = training.partition(".")
        assert inspect.isfunction(getattr(modules[module], name)), training


@pytest.mark.parametrize("case", [case for case in SICK if case.name in HERE], ids=lambda case: case.name)
def test_the_verdict_says_what_the_training_measures(case, tmp_path: Path) -> None:
    judged = run(case.training, tmp_path)
    assert not mistakes(case, judged, of_job=case in JOBS), judged.verdict


def test_a_healthy_training_gets_no_warning(tmp_path: Path) -> None:
    judged = run("sound.gradient_accumulation", tmp_path)
    assert judged.verdict["suspect"] in FINE, judged.verdict
    assert not judged.warnings
