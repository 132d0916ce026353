"""Tests of the rule ExplodingTensor."""

from __future__ import annotations

import numpy as np
from tests.rules.gradients import gradient, judged
from tests.rules.tables import ENDED, classic, look
from tests.rules.tensor_rows import rows, tensor, weight

from holter.rules.tensors.exploding_tensor import ExplodingTensor


class TestExplodingTensor:
    def test_infinity_and_nan(self):
        infinite, nan = rows(weight("w", {1: [1, np.inf]})), rows(weight("w", {1: [1, np.nan]}))
        assert judged(classic(ExplodingTensor), infinite)
        assert not judged(classic(ExplodingTensor, only_nan=True), infinite)
        assert judged(classic(ExplodingTensor), nan)
        assert judged(classic(ExplodingTensor, only_nan="true"), nan)[0].severity == "critical"
        assert not judged(ExplodingTensor(), rows(weight("w", {1: [1, 2]})))

    def test_a_tensor_of_nothing_but_nan_counts(self):
        assert judged(ExplodingTensor(), rows(weight("w", {1: [np.nan]})))

    def test_masks_and_skipped_steps_are_let_pass(self):
        mask = rows(tensor("attention_mask", {1: [0, -np.inf]}))
        skipped = rows(gradient("w", {1: [np.inf]}, state="skipped"))
        for table in (mask, skipped):
            assert not judged(ExplodingTensor(), table)
            assert judged(classic(ExplodingTensor), table)

    def test_only_some_tensors(self):
        table = rows(weight("a", {1: [np.nan]}), weight("b", {1: [np.nan]}))
        assert judged(ExplodingTensor(tensor_regex="^a$"), table)[0].evidence["tensors"] == ["a"]
        assert judged(ExplodingTensor(exclude_regex=["^a$"]), table)[0].evidence["tensors"] == ["b"]
        assert judged(ExplodingTensor(tensor_regex="b,c"), table)[0].evidence["tensors"] == ["b"]
        _, window = look(ExplodingTensor(collection_names="gradients"), job=ENDED, tensors=table)
        assert window.lack.reason == "no_match"
