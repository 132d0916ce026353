"""Tests of the rule NonFiniteLoss."""

from __future__ import annotations

import json
import math
import re

import pytest
from tests.rules.tables import SECOND, START, found, look

from holter.rules import BadRule
from holter.rules.patterns.logged import ANY_LOSS
from holter.rules.training.nonfinite_loss import NonFiniteLoss
from holter.schema.table import Table


def losses(values, *, rank=0, name="loss", first=0):
    rows = [
        {
            "time": START + (first + i) * SECOND,
            "rank": rank,
            "step": first + i,
            "mode": "train",
            "name": name,
            "value": v,
        }
        for i, v in enumerate(values)
    ]
    return Table.of("scalars", rows)


def test_the_first_nan_is_named_and_what_was_before():
    (issue,) = found(NonFiniteLoss(), scalars=losses([0.9, 0.8, math.nan, math.nan]))
    assert (issue.severity, issue.step_start, issue.rank, issue.count) == ("critical", 2, 0, 2)
    assert issue.summary == "loss became NaN at step 2 on rank 0; it was 0.8 at step 1"
    assert issue.evidence["last_finite"] == {"step": 1, "value": 0.8}


def test_a_loss_that_never_was_finite_says_so():
    (issue,) = found(NonFiniteLoss(), scalars=losses([-math.inf]))
    assert issue.summary == "loss became minus infinite at step 0 on rank 0; it was never finite"
    assert issue.evidence["finite_before"] is False


def test_all_ranks_that_followed_are_listed_and_the_first_stays_the_first():
    state = {}
    rule = NonFiniteLoss()
    look(rule, scalars=losses([0.5, math.nan], rank=3), state=state)
    (issue,) = look(rule, scalars=losses([math.nan], rank=0, first=2), state=json.loads(json.dumps(state)))[0]
    assert (issue.rank, issue.step_start) == (3, 1)
    assert issue.evidence["ranks"] == [0, 3]


def test_other_numbers_are_none_of_its_business():
    issues, window = look(NonFiniteLoss(), scalars=losses([math.nan], name="gloss"))
    assert issues == []
    assert window.lack.reason == "no_input"
    assert found(NonFiniteLoss(), scalars=losses([math.nan], name="val_loss"))
    assert found(NonFiniteLoss(names="^metric$"), scalars=losses([math.nan], name="metric"))


def test_a_pattern_that_does_not_compile_is_refused():
    with pytest.raises(BadRule, match="not a regular expression"):
        NonFiniteLoss(names="(")


def test_the_scale_of_mixed_precision_is_no_loss() -> None:
    for name in ("loss", "train_loss", "Loss/total", "val-loss", "lossless"):
        assert re.search(ANY_LOSS, name), name
    for name in ("loss_scale", "amp/loss-scaler", "train/lossscaling", "floss", "loss/loss_scale"):
        assert not re.search(ANY_LOSS, name), name
    assert look(NonFiniteLoss(), scalars=losses([math.inf] * 3, name="loss_scale"))[0] == []
