"""A training loop outside the main thread is recorded like one in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.jobs.starting import Finished, Jobs

from holter.schema.table import Table

STEPS = 40
RULE = ("--rule", f"ValidationNotRun:planned_steps={STEPS}")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """The same training, each time in another thread."""
    jobs = Jobs(tmp_path_factory.mktemp("threads"))
    return {
        how: jobs.train("in_thread.py", how, options=RULE)
        for how in ("main", "thread", "executor", "two", "beside")
    }


@pytest.mark.parametrize("how", ["main", "thread", "executor", "beside"])
def test_the_thread_makes_no_difference(trained: dict[str, Finished], how: str) -> None:
    done = trained[how]
    assert done.code == 0, done.stderr
    assert f"{STEPS} steps" in done.stderr
    told = done.describe()
    assert told["steps"]["count"] == STEPS
    taken = {part for part, share in told["breakdown"].items() if share}
    assert taken == {"data_loading", "forward", "loss", "backward", "optimizer", "other"}
    if how != "beside":  # who evaluates takes the processor
        assert told["verdict"]["suspect"] in ("healthy", "contention"), told["verdict"]
    assert told["dataloading"]["workers"] == 0
    (judged,) = [rule for rule in told["rules"] if rule["name"] == "ValidationNotRun"]
    assert judged["status"] == "IssuesFound"
    assert "optimizer steps" not in str(told["verdict"]["missing"])
    steps = done.table("steps")
    assert not steps["eval"].any()
    assert not (steps["forward"] == 0).any()


def test_of_two_trainings_at_once_one_counts_and_the_other_is_named(trained: dict[str, Finished]) -> None:
    told = trained["two"].describe()
    spans = trained["two"].table("spans")
    ended = spans.where(spans["phase"] == "step")
    updates = spans.where(spans["phase"] == "optimizer")
    assert np.unique(updates["thread"], return_counts=True)[1].tolist() == [STEPS, STEPS]
    assert STEPS - 6 <= told["steps"]["count"] < 2 * STEPS
    named = "; ".join(told["verdict"]["missing"])
    assert "optimizer steps of rank 0's thread" in named
    assert ("both end steps" in named) == (len(set(ended["thread"].tolist())) > 1 and _overlap(ended))


def test_the_sentinel_reads_no_gradients_of_a_second_thread(tmp_path: Path) -> None:
    done = Jobs(tmp_path).train("two_threads.py")  # such reads crash nearly every run
    assert done.code == 0, done.stderr
    rules = {rule["name"]: rule for rule in done.describe()["rules"]}
    for name in ("MissingZeroGrad", "ModelInEvalMode", "WrongParameters"):
        assert rules[name]["status_details"].startswith("NotEvaluated: no_input"), rules[name]
        assert "two threads train" in rules[name]["status_details"]


def _overlap(ended: Table) -> bool:
    """Whether one thread ends steps before another ended its last."""
    one, other = (ended["step"][ended["thread"] == thread] for thread in np.unique(ended["thread"])[:2])
    return bool(one.min() < other.max() and other.min() < one.max())
