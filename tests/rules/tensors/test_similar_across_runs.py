"""Tests of the rule SimilarAcrossRuns."""

from __future__ import annotations

from tests.rules.tables import ENDED, classic
from tests.rules.tensor_rows import numbers, whole

from holter.rules import Window
from holter.rules.tensors.similar_across_runs import SimilarAcrossRuns


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
