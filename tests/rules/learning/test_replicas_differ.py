"""ReplicasDiffer compares ranks that should hold one model, unless they average now and then."""

from __future__ import annotations

import pytest
from tests.rules.facts import WATCHED, ask, drifted, of_ranks, watched

from holter.rules import GradientsNotExchanged, ReplicasDiffer


@pytest.mark.parametrize(("every", "exchanges"), [(8, 0), (16, 0), (64, 4)])
def test_ranks_that_average_their_models_now_and_then_are_left_alone(every, exchanges):
    events = of_ranks(
        values=drifted,
        reductions=lambda _, step: (step + 1) // every,
        exchanges=lambda _, step: exchanges + (step + 1) // every,
    )
    assert not ask(ReplicasDiffer(), events)
    assert not ask(GradientsNotExchanged(), events)


def test_ranks_that_drift_apart_are_found():
    (issue,) = ask(ReplicasDiffer(), of_ranks(values=drifted))
    assert issue.step_end == 16
    (issue,) = ask(ReplicasDiffer(), of_ranks(values=drifted, ddp=lambda *_: True))
    assert (issue.step_end, issue.tensor) == (1, "b.weight")


def test_processes_that_form_no_group_are_not_compared():
    rows = [watched(step, rank=rank, values=drifted(rank, step)) for step in WATCHED for rank in range(2)]
    assert not ask(ReplicasDiffer(), rows)
