"""Rules about trees and about other runs, and the figures of a report: the vectors of the specification."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import found, look
from tests.rules.tensors import labelled, numbers, rows, tensor, together, whole

from holter.rules import Job, Rule, Window
from holter.rules.tensors.create_xgboost_report import CreateXgboostReport
from holter.rules.tensors.feature_importance_overweight import FeatureImportanceOverweight
from holter.rules.tensors.similar_across_runs import SimilarAcrossRuns
from holter.rules.tensors.tree_depth import TreeDepth
from holter.schema.table import Table

ENDED = Job(start=0, ended=True)


def classic(rule: type[Rule], **given: object) -> Rule:
    return rule.of(given, defaults="classic")


def judged(rule, tables):
    return found(rule, job=ENDED, **tables)


def lack(rule, tables):
    issues, window = look(rule, job=ENDED, **tables)
    assert issues == []
    return window.lack


def importance(kind, shares):
    return {
        "tensors": rows(*(tensor(f"feature_importance/{kind}/f{i}", {0: [s]}) for i, s in enumerate(shares)))
    }


class TestTrees:
    def test_three_features_carry_too_much(self):
        weights = importance("weight", [0.5, 0.25, 0.1, 0.1, 0.05])
        (issue,) = judged(classic(FeatureImportanceOverweight), weights)
        assert issue.evidence["value"] == pytest.approx(0.85)
        assert list(issue.evidence["features"]) == ["f0", "f1", "f2"]
        assert not judged(classic(FeatureImportanceOverweight), importance("weight", [0.2] * 5))

    def test_a_model_of_three_features(self):
        assert judged(classic(FeatureImportanceOverweight), importance("weight", [0.5, 0.5]))
        assert lack(FeatureImportanceOverweight(), importance("gain", [0.5, 0.5])).have == 2

    @pytest.mark.parametrize(("largest", "fires"), [(14, False), (15, False), (30, False), (31, True)])
    def test_depth_by_the_largest_node(self, largest, fires):
        nodes = {"tensors": rows(tensor("trees/Node", {0: list(range(largest + 1))}))}
        assert bool(judged(classic(TreeDepth), nodes)) == fires

    def test_depth_along_the_links(self):
        # Grown leaf by leaf: node 2i - 1 has the children 2i and 2i + 1, six levels with node 12 the largest.
        yes = [1, 3, np.nan, 5, np.nan, 7, np.nan, 9, np.nan, 11, np.nan, np.nan, np.nan]
        no = [2, 4, np.nan, 6, np.nan, 8, np.nan, 10, np.nan, 12, np.nan, np.nan, np.nan]
        columns = {"trees/Node": list(range(13)), "trees/Yes": yes, "trees/No": no}
        linked = together(*(whole(name, {0: values}) for name, values in columns.items()))
        assert judged(TreeDepth(depth=5), linked)[0].evidence["value"] == 6
        assert not judged(TreeDepth(depth=6), linked)
        assert not judged(TreeDepth(depth=5, use_links=False), linked)


class TestSimilarAcrossRuns:
    def run(self, changed=None):
        steps = {s: [1.0, 2.0, 3.0] for s in range(10)}
        if changed is not None:
            steps[7] = [1.0, 2.0, changed]
        return whole("w", steps, role="weight")

    def compared(self, rule, mine, other):
        window = Window.of(job=ENDED, baselines={"other": other}, **mine)
        return list(rule.evaluate(window)), window

    def test_one_element_that_differs_is_found(self):
        rule = classic(SimilarAcrossRuns, other_trials="other")
        assert self.compared(rule, self.run(), self.run())[0] == []
        (issue,) = self.compared(rule, self.run(3.5), self.run())[0]
        assert (issue.step_start, issue.evidence["value"]) == (7, 0.5)
        only_statistics = {"tensors": self.run(3.0000000001)["tensors"]}
        assert self.compared(rule, only_statistics, {"tensors": self.run()["tensors"]})[0]

    def test_losses_within_a_tolerance(self):
        rule = SimilarAcrossRuns(other_trials=["other"])
        mine, near = {"scalars": numbers("loss", {1: 1.0})}, {"scalars": numbers("loss", {1: 1.0 + 5e-6})}
        assert self.compared(rule, mine, near)[0] == []
        assert self.compared(rule, mine, {"scalars": numbers("loss", {1: 1.1})})[0]
        assert self.compared(SimilarAcrossRuns(other_trials="other", fire_if="similar"), mine, near)[0]

    def test_what_the_other_run_lacks_is_counted(self):
        mine = {"scalars": numbers("loss", {1: 1.0, 2: 1.0})}
        _, window = self.compared(
            SimilarAcrossRuns(other_trials="other"), mine, {"scalars": numbers("loss", {1: 1})}
        )
        assert window.details["missing_in_other_run"] == 1

    def test_a_run_that_was_not_given(self):
        _, window = self.compared(SimilarAcrossRuns(other_trials="absent"), self.run(), {})
        assert (window.lack.reason, "absent" in window.lack.text) == ("no_input", True)


class TestCreateXgboostReport:
    def details(self, tables):
        rule = CreateXgboostReport()
        issues, window = look(rule, job=ENDED, **tables)
        assert issues == []
        return window.details

    def test_a_binary_job(self):
        tables = labelled([0, 1, 1, 0], [0.1, 0.9, 0.3, 0.2])
        tables["tensors"] = Table.concat([tables["tensors"], importance("gain", [3.0, 1.0])["tensors"]])
        tables["scalars"] = numbers("validation-logloss", {0: 0.7, 5: 0.4})
        details = self.details(tables)
        assert details["job_type"] == "binary"
        assert details["label_distribution"] == {"0": 2, "1": 2}
        assert details["confusion"]["rows_are_labels"] == [[2, 0], [1, 1]]
        assert details["last_losses"]["validation-logloss"] == {"step": 5, "value": 0.4}
        assert details["feature_importance"]["gain"] == {"f0": 0.75, "f1": 0.25}

    def test_multiclass_and_regression(self):
        assert self.details(labelled([0, 2, 1], np.eye(3)))["job_type"] == "multiclass"
        details = self.details(labelled([0.5, 1.5, 9.0], [0.4, 1.5, 8.0]))
        assert details["job_type"] == "regression"
        assert sum(details["residuals"]["counts"]) == 3
