"""Rules about activations, labels and inputs: the vectors of the specification, and around them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import found, look
from tests.rules.tensors import counters, elements, labelled, rows, tensor, whole

from holter.rules import BadRule, Job, Rule, catalogue
from holter.rules.data.check_input_images import CheckInputImages
from holter.rules.data.class_imbalance import ClassImbalance
from holter.rules.data.confusion import Confusion
from holter.rules.data.nlp_sequence_ratio import NLPSequenceRatio
from holter.rules.tensors.dead_relu import DeadRelu
from holter.rules.tensors.saturated_activation import SaturatedActivation
from holter.schema.table import Table

ENDED = Job(start=0, ended=True)
RANDOM = np.random.default_rng(11)


def classic(rule: type[Rule], **given: object) -> Rule:
    return rule.of(given, defaults="classic")


def judged(rule, tables):
    return found(rule, job=ENDED, **tables)


def lack(rule, tables):
    issues, window = look(rule, job=ENDED, **tables)
    assert issues == []
    return window.lack


class TestDeadRelu:
    def layer(self, dead, units=10, samples=64):
        values = np.abs(RANDOM.normal(size=(samples, units))) + 0.1
        values[:, :dead] = 0.0
        return values

    def relu(self, values, **about):
        by_step = values if isinstance(values, dict) else {0: values}
        return whole("relu0_relu_output_0", by_step, role="act_out:relu", **about)

    def test_a_dense_layer_of_zero_weights_is_dead(self):
        outputs = np.maximum(RANDOM.normal(size=(32, 20)) @ np.zeros((20, 10)), 0)
        assert judged(classic(DeadRelu), self.relu(outputs))[0].evidence["inactive_units"] == 10

    def test_half_of_the_units_is_not_more_than_half(self):
        assert not judged(classic(DeadRelu), self.relu(self.layer(5)))
        assert judged(classic(DeadRelu), self.relu(self.layer(6)))[0].evidence["value"] == pytest.approx(60)

    def test_modern_gathers_channels_over_steps(self):
        images = np.zeros((4, 8, 16, 16))
        images[:, 4:] = 1.0
        layers = self.relu(dict.fromkeys(range(12), images))
        assert judged(DeadRelu(), layers)[0].step_start == 11
        assert not judged(DeadRelu(), self.relu(dict.fromkeys(range(11), images)))

    def test_the_recorder_s_counts_are_enough(self):
        values = [row for s in range(3) for row in counters("act", [0, 0, 900, 10], 4096, step=s)]
        table = rows(tensor("act", {s: [0.0, 1.0] for s in range(3)}, role="act_out:relu"))
        tables = {"tensors": table, "tensor_values": Table.of("tensor_values", values)}
        (issue,) = judged(DeadRelu(), tables)
        assert (issue.step_start, issue.evidence["units"]) == (2, 4)

    def test_statistics_alone_are_not(self):
        table = rows(tensor("act", {0: [0.0, 1.0]}, role="act_out:relu"))
        assert lack(DeadRelu(), {"tensors": table}).reason == "shape_missing"


class TestSaturatedActivation:
    def tanh(self, stuck_at):
        values = RANDOM.uniform(-1, 1, size=(300, 10))
        values[:, :6] = stuck_at
        return whole("net_tanh_input_0", {0: values}, role="act_in:tanh")

    def test_inputs_at_ten_and_at_nine(self):
        assert judged(classic(SaturatedActivation), self.tanh(10.0))
        assert not judged(classic(SaturatedActivation), self.tanh(9.0))
        assert judged(SaturatedActivation(), self.tanh(9.0))
        assert not judged(SaturatedActivation(), self.tanh(3.0))

    def test_counts_are_used_only_for_the_limits_they_were_made_with(self):
        table = rows(tensor("x", {0: [0.0, 9.0]}, role="act_in:sigmoid"))
        values = Table.of("tensor_values", counters("x", [0, 0, 300], 300))
        tables = {"tensors": table, "tensor_values": values}
        assert judged(SaturatedActivation(), tables)
        assert lack(SaturatedActivation(threshold_sigmoid_max=7), tables).reason == "shape_missing"

    def test_limits_the_wrong_way_round_are_refused(self):
        with pytest.raises(BadRule, match="threshold_tanh_min"):
            SaturatedActivation(threshold_tanh_min=5)


class TestClassImbalance:
    def test_one_class_has_far_more(self):
        labels = [0] * 990 + [1] * 10
        assert judged(classic(ClassImbalance), labelled(labels, labels))[0].code == "imbalance"

    def test_a_class_that_is_badly_predicted(self):
        labels = np.array([0, 1] * 250)
        wrong = labels.copy()
        wrong[np.flatnonzero(labels == 1)[:188]] = 0
        (issue,) = judged(classic(ClassImbalance), labelled(labels, wrong))
        assert (issue.code, issue.evidence["classes"]) == ("misprediction", {"1": 0.752})
        wrong[np.flatnonzero(labels == 1)[:30]] = 1
        assert not judged(classic(ClassImbalance), labelled(labels, wrong))

    def test_too_few_labels_are_not_judged(self):
        assert lack(classic(ClassImbalance), labelled([0] * 498 + [1], None)).have == 499
        assert lack(ClassImbalance(), labelled(list(range(20)) * 30, None)).need == 1000

    def test_scores_ignored_labels_and_classes_that_never_occur(self):
        labels = [0, 1, -100] * 250
        scores = np.eye(3)[np.abs(labels) % 3]
        assert not judged(ClassImbalance(), labelled(labels, scores))
        assert (
            judged(ClassImbalance(num_classes=3), labelled(labels, scores))[0].evidence["smallest_class"]
            == "2"
        )

    def test_lengths_that_differ_are_named(self):
        assert (
            lack(ClassImbalance(), labelled([0, 1, 0], [1, 1])).text == "labels has 3 elements, predictions 2"
        )


class TestConfusion:
    TEN = tuple(range(10))
    ONE_WRONG = (0, 1, 2, 3, 7, 5, 6, 7, 8, 9)

    def test_a_perfect_matrix(self):
        labels = RANDOM.integers(0, 10, 100)
        assert not judged(classic(Confusion), labelled(labels, labels))

    def test_one_label_is_taken_for_another(self):
        tables = labelled(self.TEN, self.ONE_WRONG)
        assert judged(classic(Confusion, category_no=10), tables)
        (issue,) = judged(classic(Confusion, min_diag=0, max_off_diag=0.01), tables)
        assert issue.evidence["value"] == 0.5

    def test_few_mistakes_are_allowed(self):
        labels, guesses = [0] * 100 + [1] * 100, [0] * 95 + [1] * 105
        assert not judged(classic(Confusion), labelled(labels, guesses))
        assert judged(classic(Confusion, max_off_diag=0.047), labelled(labels, guesses))
        assert judged(classic(Confusion, min_diag=0.96), labelled(labels, guesses))

    def test_modern_is_silent_until_limits_are_chosen_and_gathers(self):
        assert "min_diag" in lack(Confusion(), labelled(self.TEN, self.ONE_WRONG)).text
        assert lack(Confusion(min_diag=0.9), labelled(self.TEN, self.ONE_WRONG)).need == 200
        many = labelled(self.TEN * 20, self.ONE_WRONG * 20)
        codes = {i.code for i in judged(Confusion(min_diag=0.9), many)}
        assert codes == {"diagonal_by_prediction", "diagonal_by_label"}


class TestCheckInputImages:
    def images(self, mean, std, count=600, name="hybridsequential0_input_0"):
        values = RANDOM.normal(mean, std, size=(count // 6, 1, 8, 8))
        return whole(name, dict.fromkeys(range(6), values), role="model_input:0")

    def test_images_from_zero_to_one_are_not_normalised(self):
        (issue, *_) = judged(classic(CheckInputImages), self.images(0.286, 0.352))
        assert issue.step_start == 4
        assert not judged(classic(CheckInputImages), self.images(0.0, 1.0))
        assert lack(classic(CheckInputImages), self.images(0.286, 0.352, 480)).reason == "too_few_points"

    def test_modern_takes_the_role_and_looks_at_deviation_and_range(self):
        assert judged(CheckInputImages(), self.images(0.0, 0.05, name="x"))[0].code == "std"
        assert judged(CheckInputImages(), self.images(120, 40, 6, name="x"))[0].code == "raw"

    def test_statistics_and_the_shape_are_enough_for_a_mean_that_is_far_off(self):
        both = self.images(0.5, 0.2)
        shapes = both["tensor_values"].where(both["tensor_values"]["kind"] == "shape")
        assert judged(CheckInputImages(), {**both, "tensor_values": shapes})[0].code == "mean"
        assert lack(CheckInputImages(), {"tensors": both["tensors"]}).reason == "shape_missing"


class TestNLPSequenceRatio:
    def tokens(self, *batches):
        return whole("embedding0_input_0", dict(enumerate(batches)), role="token_ids")

    def test_padding(self):
        assert judged(classic(NLPSequenceRatio), self.tokens([[0, 0, 0, 5]]))[0].evidence["value"] == 75
        assert not judged(classic(NLPSequenceRatio), self.tokens([[0, 0, 5, 5]]))

    def test_several_tokens(self):
        rule = classic(NLPSequenceRatio, token_values="0, 7", token_thresholds_percent="80, 20")
        assert judged(rule, self.tokens([[0, 7, 1, 1]]))[0].code == "7"
        with pytest.raises(BadRule, match="one number for each"):
            NLPSequenceRatio(token_values="0, 7")

    def test_modern_counts_several_batches(self):
        assert not judged(NLPSequenceRatio(), self.tokens(*[[[0, 0, 0, 5]]] * 9))
        assert judged(NLPSequenceRatio(), self.tokens(*[[[0, 0, 0, 5]]] * 10))[0].step_start == 9

    def test_zeros_need_no_values(self):
        tables = {"tensors": self.tokens([[0, 0, 0, 5]])["tensors"]}
        assert judged(classic(NLPSequenceRatio), tables)
        rule = classic(NLPSequenceRatio, token_values="7", token_thresholds_percent="20")
        assert lack(rule, tables).reason == "no_match"


@pytest.mark.parametrize("defaults", ["modern", "classic"])
def test_a_run_without_a_matching_tensor_says_so(defaults):
    only = whole("nothing", {0: [1.0]}, role="elsewhere")
    for name in (
        "VanishingGradient",
        "DeadRelu",
        "ClassImbalance",
        "CheckInputImages",
        "TreeDepth",
        "LossNotDecreasing",
    ):
        rule = catalogue()[name].of(defaults=defaults)
        assert lack(rule, only).reason == "no_match"


def test_elements_keep_their_shape():
    listed = elements("x", {0: [[1, 2], [3, 4]]})
    assert [r["value"] for r in listed if r["kind"] == "shape"] == [2, 2]
