"""Rules about gradients, weights and what is not finite: the vectors of the specification and more."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import found, look
from tests.rules.tensors import numbers, rows, tensor

from holter.rules import BadRule, Job, Rule
from holter.rules.tensors.all_zero import AllZero
from holter.rules.tensors.exploding_tensor import ExplodingTensor
from holter.rules.tensors.tensor_variance import TensorVariance
from holter.rules.tensors.unchanged_tensor import UnchangedTensor
from holter.rules.training.poor_weight_initialization import PoorWeightInitialization
from holter.rules.training.vanishing_gradient import VanishingGradient
from holter.rules.training.weight_update_ratio import WeightUpdateRatio

ENDED = Job(start=0, ended=True)
ONES = {0: [1.0, 1.0], 1: [1.0, 1.0], 2: [1.0, 1.0]}


def classic(rule: type[Rule], **given: object) -> Rule:
    return rule.of(given, defaults="classic")


def gradient(name, by_step, **about):
    return tensor(f"gradient/{name}", by_step, role="grad", **about)


def weight(name, by_step, **about):
    return tensor(name, by_step, role="weight", **about)


def same(steps, values):
    return {step: list(values) for step in steps}


def judged(rule, table, **more):
    return found(rule, job=ENDED, tensors=table, **more)


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


class TestAllZero:
    def test_the_threshold_is_reached_not_passed(self):
        table = rows(weight("w", {0: [0.0] * 99 + [1.0]}))
        assert not judged(classic(AllZero), table)
        assert judged(classic(AllZero, threshold=99), table)
        assert judged(classic(AllZero), rows(weight("w", {0: [-0.0, 0.0]})))

    def test_modern_waits_and_forgives_the_first(self):
        zeros = {step: [0.0, 0.0] for step in range(6)}
        assert judged(AllZero(), rows(weight("w", zeros)))[0].step_start == 5
        assert not judged(AllZero(), rows(weight("w", {**zeros, 3: [0.0, 1.0]})))

    @pytest.mark.parametrize("threshold", [0, -1, 101])
    def test_impossible_thresholds_are_refused(self, threshold):
        with pytest.raises(BadRule, match="threshold"):
            AllZero(threshold=threshold)


class TestTensorVariance:
    def test_limits(self):
        table = rows(weight("w", {0: [0, 8]}))
        assert judged(classic(TensorVariance, max_threshold=10), table)[0].evidence["value"] == pytest.approx(
            16
        )
        assert not judged(classic(TensorVariance, max_threshold=16), table)
        assert judged(classic(TensorVariance, min_threshold=17), table)
        _, window = look(classic(TensorVariance), job=ENDED, tensors=table)
        assert "set max_threshold or min_threshold" in window.lack.text

    def test_modern_compares_with_the_first_step(self):
        assert judged(TensorVariance(), rows(weight("w", {0: [0, 1], 1: [0, 11]})))
        assert judged(TensorVariance(start_step=1), rows(weight("w", {0: [0, 11], 1: [0, 1]})))
        assert not judged(
            TensorVariance(), rows(weight("w", {0: [0, 1], 1: [0, 9]}), weight("one", {0: [3.0]}))
        )

    def test_modern_lets_a_tensor_begin_with_zeros_but_not_stay_so(self):
        zeros = {0: [0.0, 0.0], 1: [0.1, -0.1]}
        assert not judged(TensorVariance(), rows(weight("lora_b", zeros)))
        assert judged(TensorVariance(first_small=True), rows(weight("lora_b", zeros)))
        assert judged(TensorVariance(), rows(weight("w", {0: [0.0, 0.0], 1: [0.0, 0.0]})))


class TestWeightUpdateRatio:
    BEFORE, AFTER = [1, -1, 2, -2], [1.1, -0.9, 2.1, -1.9]

    def test_a_healthy_update(self):
        table = rows(weight("w", {0: self.BEFORE, 1: self.AFTER}))
        assert not judged(classic(WeightUpdateRatio), table)
        assert not judged(WeightUpdateRatio(), table)
        (issue,) = judged(classic(WeightUpdateRatio, large_threshold=0.06), table)
        assert issue.evidence["value"] == pytest.approx(0.1 / 1.5, rel=1e-6)
        (issue,) = judged(WeightUpdateRatio(large_threshold=0.06), table)
        assert issue.evidence["value"] == pytest.approx(0.2 / np.sqrt(10), rel=1e-6)

    def test_no_update(self):
        table = rows(weight("w", {0: self.BEFORE, 1: self.BEFORE}))
        assert judged(classic(WeightUpdateRatio), table)[0].code == "small"
        assert judged(WeightUpdateRatio(), table)[0].code == "small"

    def test_modern_lets_a_weight_that_began_at_zero_grow(self):
        grows = {0: [0.0, 0.0], 1: [0.1, -0.1], 2: [0.15, -0.15], 3: [0.16, -0.16]}
        assert not judged(WeightUpdateRatio(), rows(weight("lora_b", grows)))
        jumps = grows | {4: [0.5, -0.5]}
        assert judged(WeightUpdateRatio(), rows(weight("lora_b", jumps)))[0].step_end == 4

    def test_modern_forgives_a_learning_rate_of_zero_or_that_rises(self):
        table = rows(weight("w", {0: self.BEFORE, 1: self.BEFORE}))
        assert not judged(WeightUpdateRatio(), table, scalars=numbers("lr", {0: 0.0, 1: 0.0}))
        assert not judged(WeightUpdateRatio(), table, scalars=numbers("lr", {0: 1e-6, 1: 1e-5}))
        assert judged(WeightUpdateRatio(), table, scalars=numbers("lr", {0: 1e-5, 1: 1e-5}))

    def test_modern_takes_the_change_per_step_and_leaves_biases_and_frozen_weights_out(self):
        grown = {0: [1.0, 1.0], 10: [1.5, 1.5]}
        assert not judged(WeightUpdateRatio(), rows(weight("w", grown)))
        assert judged(WeightUpdateRatio(per_step=False, large_threshold=0.4), rows(weight("w", grown)))
        table = rows(weight("w", {0: [1.0], 1: [1.0]}, state="frozen"), weight("x", {0: [1.0], 1: [1.001]}))
        assert not judged(WeightUpdateRatio(), table)
        bias = rows(tensor("b.bias", {0: [1.0], 1: [9.0]}, role="bias"), weight("x", {0: [1.0], 1: [1.001]}))
        assert not judged(WeightUpdateRatio(), bias)

    def test_steps_that_are_too_near_are_said(self):
        table = rows(weight("w", {0: self.BEFORE, 1: self.BEFORE}))
        issues, window = look(classic(WeightUpdateRatio, num_steps=5), job=ENDED, tensors=table)
        assert not issues
        assert "save every 5 steps" in window.lack.text

    @pytest.mark.parametrize("state", ["frozen", "skipped"])
    def test_what_did_not_learn_before_owes_no_change(self, state):
        values = {0: [1.0, 2.0], 1: [1.0, 2.0], 2: [1.0, 2.0], 3: [1.0, 2.0]}
        table = weight("w", values)
        for row in table[:2]:
            row["state"] = state
        (issue,) = judged(WeightUpdateRatio(), rows(table))
        assert (issue.code, issue.step_start) == ("small", 3)


class TestUnchangedTensor:
    def test_the_third_equal_value_fires(self):
        rule = classic(UnchangedTensor)
        assert not judged(rule, rows(weight("w.weight", {0: [1.0], 1: [1.0]})))
        assert judged(rule, rows(weight("w.weight", ONES)))[0].step_start == 2
        assert judged(classic(UnchangedTensor, start_step=2), rows(weight("w.weight", ONES)))
        assert not judged(rule, rows(weight("w.weight", {0: [1.0]})))

    def test_modern_wants_equal_bits(self):
        nearly = {step: [1.0 + step * 1e-7] for step in range(4)}
        assert judged(classic(UnchangedTensor), rows(weight("w", nearly)))
        assert not judged(UnchangedTensor(), rows(weight("w", nearly)))
        assert judged(UnchangedTensor(), rows(weight("w", ONES)))

    def test_what_should_not_change_may_stay(self):
        assert not judged(UnchangedTensor(), rows(weight("w", ONES, state="frozen"), weight("x", {0: [1]})))
        still = numbers("lr", dict.fromkeys(range(3), 0.0))
        assert not judged(UnchangedTensor(), rows(weight("w", ONES)), scalars=still)
        assert judged(UnchangedTensor(skip_if_lr_zero=False), rows(weight("w", ONES)), scalars=still)

    def test_without_fingerprint_and_change_the_statistics_decide(self):
        bare = [r | {"fingerprint": 0, "delta_max": np.nan} for r in weight("w", ONES)]
        assert judged(UnchangedTensor(), rows(bare))
        moved = [r | {"fingerprint": 0, "delta_max": np.nan} for r in weight("w", {**ONES, 2: [1, 2]})]
        assert not judged(UnchangedTensor(), rows(moved))


class TestPoorWeightInitialization:
    def layers(self, large, steps=1):
        # Two elements at +-s have variance s².
        sizes = {"a_relu_input": 1.0, "b_relu_input": np.sqrt(large)}
        return [tensor(n, {i: [s, -s] for i in range(steps)}, role="act_in:relu") for n, s in sizes.items()]

    def test_classic_takes_any_of_the_three(self):
        rule = classic(PoorWeightInitialization)
        assert judged(rule, rows(*self.layers(11)))[0].code == "scales"
        assert not judged(rule, rows(*self.layers(9)))
        narrow = rows(*self.layers(2), gradient("w", {0: [1e-5, -1e-5]}))
        assert judged(rule, narrow)[0].code == "gradients"
        flat = numbers("loss", dict.fromkeys(range(6), 1.0))
        assert judged(rule, rows(*self.layers(2, 6)), scalars=flat)[0].code == "loss"
        falling = numbers("loss", {i: 1.0 - i / 10 for i in range(6)})
        assert not judged(rule, rows(*self.layers(2, 6)), scalars=falling)

    def test_modern_asks_for_a_loss_that_does_not_fall_too(self):
        rule = PoorWeightInitialization()
        flat = numbers("loss", dict.fromkeys(range(12), 1.0))
        falling = numbers("loss", {i: 1.0 - i / 20 for i in range(12)})
        assert judged(rule, rows(*self.layers(200, 12)), scalars=flat)[0].step_start == 10
        assert not judged(rule, rows(*self.layers(200, 12)), scalars=falling)
        assert not judged(rule, rows(*self.layers(20, 12)), scalars=flat)

    def test_only_the_first_saved_steps_count(self):
        late = [row for layer in self.layers(99, 11) for row in layer if row["step"] == 10]
        assert not judged(classic(PoorWeightInitialization), rows(*self.layers(2, 10), late))
