"""A Python profile that a job has: its functions are named, and nobody is asked to record it again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holter.analysis.verdict.job_facts import VerdictFacts
from holter.analysis.verdict.job_verdict import verdict
from holter.analysis.verdict.profiled_python import profiled_python
from holter.schema.table import Table

STEPS = Table(
    {
        "step": np.arange(10, 50),
        "other": np.where(np.arange(10, 50) % 16 == 0, 160_000_000, 1_000_000).astype(np.int64),
    }
)
FACTS = VerdictFacts(
    breakdown={"forward": 38.0, "other": 62.0},
    steady_steps=40,
    step_ms=3.0,
    mean_step_ms=20.0,
    parts_ms={"forward": 2.0, "other": 1.0},
    device="cpu",
    window={"step_start": 10, "step_end": 49, "time_start": 0, "time_end": 1},
)


def called(*steps: int, **functions: int) -> Table:
    """Table `python_functions`: each function with its own time, in each of the steps."""
    rows = [(step, name, spent) for step in steps for name, spent in functions.items()]
    count = len(rows)
    return Table(
        {
            "step": np.array([row[0] for row in rows], np.int64),
            "phase": np.array(["other"] * count, dtype=object),
            "timer": np.array(["total_time"] * count, dtype=object),
            "function": np.array([f"{row[1]} (ppo.py:5)" for row in rows], dtype=object),
            "self_time": np.array([row[2] for row in rows], np.int64),
            "total_time": np.array([row[2] for row in rows], np.int64),
            "calls": np.ones(count, np.int64),
            "primitive_calls": np.ones(count, np.int64),
        }
    )


NO_STACKS = Table({"phase": np.array([], dtype=object)})


def test_without_a_profile_one_is_advised():
    found = verdict(FACTS)
    assert found.suspect == "inconclusive"
    assert "profile of the Python code" in found.missing
    assert "--profile-steps" in found.advice[0].text


def test_the_functions_of_a_recorded_profile_are_named():
    python = profiled_python(called(31, 32, 33, rollout=90, log=10), NO_STACKS, STEPS)
    found = verdict(replace(FACTS, python=python))
    assert found.suspect == "own_code"
    assert "in steps 31 to 33, rollout (ppo.py:5) 90 %, log (ppo.py:5) 10 %." in found.sentence
    assert not [one for one in found.advice if "rofile" in one.text]
    assert found.advice[0].text.startswith("Shorten rollout (ppo.py:5)")
    assert found.advice[0].expected_step_ms == pytest.approx(20 * (1 - 0.62 * 0.9))
    assert found.missing == ["CPU samples"]


def test_a_profile_of_other_steps_is_not_advised_again():
    python = profiled_python(called(10, 11, 12, log=10), NO_STACKS, STEPS)
    found = verdict(replace(FACTS, python=python))
    assert found.suspect == "inconclusive"
    (advice,) = found.advice
    assert "--profile-steps 16:17:cprofile --profile-steps 32:33:cprofile" in advice.text
    assert "steps 10 to 12 have a profile, but little of that time" in advice.why
    assert "10:13" not in advice.text


def test_without_rows_there_is_no_profile():
    assert profiled_python(called(), NO_STACKS, STEPS) is None
