"""Tests of the rule VanishingGradient."""

from __future__ import annotations

import pytest
from tests.rules.gradients import gradient, judged
from tests.rules.tables import ENDED, classic, look
from tests.rules.tensor_rows import rows, weight

from holter.rules.training.vanishing_gradient import VanishingGradient


def same(steps, values):
    return {step: list(values) for step in steps}


class TestVanishingGradient:
    def test_small_mean_absolute_value_fires_and_twice_the_limit_does_not(self):
        (issue,) = judged(classic(VanishingGradient), rows(gradient("w", {5: [1e-8, -1e-8, 0, 2e-8]})))
        assert (issue.tensor, issue.step_start, issue.rank, issue.node) == ("gradient/w", 5, 0, "n0")
        assert issue.evidence["value"] == pytest.approx(1e-8)
        assert not judged(classic(VanishingGradient), rows(gradient("w", {5: [2e-7] * 4})))

    def test_of_two_only_the_one_that_vanishes_is_named(self):
        table = rows(gradient("a", {5: [1e-3] * 4}), gradient("b", {5: [1e-9] * 4}))
        (issue,) = judged(classic(VanishingGradient), table)
        assert issue.evidence["tensors"] == ["gradient/b"]
        assert not judged(classic(VanishingGradient, min_fraction_layers=0.6), table)

    def layers(self, steps, last, **about):
        sizes = {"a": 1e-3, "b": 2e-3, "c": 1e-3, "d": last}
        return [gradient(f"{n}.weight", same(steps, [v, -v]), **about) for n, v in sizes.items()]

    def test_modern_compares_layers_three_times_in_a_row(self):
        (issue,) = judged(VanishingGradient(), rows(*self.layers(range(3), 5e-8)))
        assert (issue.step_start, issue.evidence["tensors"]) == (2, ["gradient/d.weight"])
        assert not judged(VanishingGradient(), rows(*self.layers(range(2), 5e-8)))
        assert not judged(VanishingGradient(), rows(*self.layers(range(3), 2e-7)))

    def test_modern_leaves_out_what_is_meant_to_get_no_gradient(self):
        for state in ("frozen", "unused", "skipped"):
            table = rows(*self.layers(range(3), 1e-3), gradient("e", same(range(3), [0.0]), state=state))
            assert not judged(VanishingGradient(), table)
        biases = rows(*self.layers(range(3), 1e-3), gradient("e.bias", same(range(3), [1e-12] * 2)))
        assert not judged(VanishingGradient(), biases)

    def test_modern_does_not_mind_a_large_model_whose_gradients_are_all_small(self):
        steps = range(3)
        small = [gradient(n, same(steps, [3e-8, -3e-8])) for n in "abc"]
        weights = [weight(n, {s: [0.01, -0.02] for s in steps}) for n in "abc"]
        assert not judged(VanishingGradient(), rows(*small, *weights))

    def test_without_gradients_it_says_what_to_record(self):
        _, window = look(VanishingGradient(), job=ENDED, tensors=rows(weight("w", {0: [1.0]})))
        assert window.lack.reason == "no_match"
        assert "--save gradients@100" in window.lack.text
        _, window = look(VanishingGradient(), job=ENDED)
        assert window.lack.reason == "no_match"
