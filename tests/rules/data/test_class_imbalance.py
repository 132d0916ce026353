"""Tests of the rule ClassImbalance."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import classic, judged, lack
from tests.rules.tensor_rows import labelled

from holter.rules.data.class_imbalance import ClassImbalance


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
