"""Tests of the rule StalledTrainingRule."""

from __future__ import annotations

from tests.rules.tables import SECOND, START, classic
from tests.rules.tensor_rows import numbers, rows, tensor

from holter.rules import Job, Window
from holter.rules.reliability.stalled_training_rule import StalledTrainingRule
from holter.schema.table import Table


class TestStalledTrainingRule:
    def silence(self, seconds, rule=None, **tables):
        rule = rule or classic(StalledTrainingRule, threshold=60)
        end = START + seconds * SECOND
        window = Window.of(rule.lookback, job=Job(start=START), start=START - 1, end=end, **tables)
        return rule, window

    def test_silence_after_the_last_tensor_fires_once(self):
        state = {}
        rule = classic(StalledTrainingRule, threshold=60)
        table = rows(tensor("w", {0: [1.0], 9: [1.0]}))
        for end, count in ((9 + 59, 0), (9 + 61, 1), (9 + 200, 0)):
            window = Window.of(job=Job(start=START), end=START + end * SECOND, state=state, tensors=table)
            assert len(list(rule.evaluate(window))) == count

    def test_a_slow_start_and_a_gap_count(self):
        rule, window = self.silence(61)
        (issue,) = rule.evaluate(window)
        assert issue.summary == "nothing was saved for more than 60 s after the job's start"
        rule, window = self.silence(
            300, scalars=numbers("loss", dict.fromkeys([*range(0, 99, 9), *range(200, 300, 9)], 1.0))
        )
        (issue,) = rule.evaluate(window)
        assert issue.time_start == START + 90 * SECOND

    def test_it_may_ask_for_the_job_to_be_stopped(self):
        rule, window = self.silence(
            61, classic(StalledTrainingRule, threshold=60, stop_training_on_fire="True")
        )
        assert next(iter(rule.evaluate(window))).evidence["stop_training"] is True

    def test_without_a_threshold_it_judges_as_stalled_training_does(self):
        event = {"time": START + SECOND, "rank": 2, "kind": "lost", "name": "lost", "detail": '{"step": 7}'}
        rule, window = self.silence(5, StalledTrainingRule(), events=Table.of("events", [event]))
        (issue,) = rule.evaluate(window)
        assert (issue.rule, issue.code, issue.rank) == ("StalledTrainingRule", "lost", 2)
