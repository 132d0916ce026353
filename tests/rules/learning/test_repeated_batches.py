"""RepeatedBatches: equal batches of a loader or of ranks; the same data in each epoch is healthy."""

from __future__ import annotations

from tests.rules.facts import WATCHED, ask, of_ranks, watched
from tests.rules.tables import codes

from holter.rules import RepeatedBatches


def batches(rank, step):
    return [[0, step, 1000 + step]]


def test_only_ranks_of_one_group_should_have_different_batches():
    whole = {"ddp": lambda *_: True, "ddp_ranks": lambda *_: 2}
    assert codes(ask(RepeatedBatches(), of_ranks(batches=batches, **whole))) == [("ranks", "warning")]
    part = whole | {"ddp_ranks": lambda *_: 1}
    assert not ask(RepeatedBatches(), of_ranks(batches=batches, **part))
    one = of_ranks(batches=lambda _, step: [[0, step, 7]], **whole)
    assert {severity for _, severity in codes(ask(RepeatedBatches(), one))} == {"info"}


def test_the_same_data_in_each_epoch_is_healthy():
    def epochs(step):
        return [[0, step, at] + [1] * (at == 0) for _ in range(2) for at in range(4)]

    assert not ask(RepeatedBatches(), [watched(step, batches=epochs(step)) for step in WATCHED])
    endless = [watched(step, batches=[one[:3] for one in epochs(step)]) for step in WATCHED]
    assert codes(ask(RepeatedBatches(), endless)) == [("loader", "warning")]
