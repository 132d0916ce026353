"""Rules about losses and silence: the vectors of the specification, and around them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look
from tests.rules.tensors import numbers, rows, tensor

from holter.rules import Job, Rule, Window
from holter.rules.reliability.stalled_training_rule import StalledTrainingRule
from holter.rules.training.loss_not_decreasing import LossNotDecreasing
from holter.rules.training.overfit import Overfit
from holter.rules.training.overtraining import Overtraining
from holter.schema.table import Table

ENDED = Job(start=START, ended=True)
UPSTREAM = {0: 0.30, 4: 0.33, 8: 0.31, 12: 0.30, 16: 0.28}


def classic(rule: type[Rule], **given: object) -> Rule:
    return rule.of(given, defaults="classic")


def judged(rule, *tables):
    return found(rule, job=ENDED, scalars=Table.concat(tables))


def steps(issues):
    return [(i.step_start, i.step_end) for i in issues]


class TestLossNotDecreasing:
    def test_the_vector_of_upstream(self):
        assert steps(judged(classic(LossNotDecreasing), numbers("loss", UPSTREAM))) == [(0, 12)]
        assert judged(classic(LossNotDecreasing, start_step=13), numbers("loss", UPSTREAM)) == []

    def test_a_decrease_of_twenty_percent(self):
        more = {**UPSTREAM, 20: 0.20, 24: 0.42}
        assert steps(judged(classic(LossNotDecreasing, diff_percent=20), numbers("loss", more)))[0] == (0, 12)

    @pytest.mark.parametrize(("now", "fires"), [(1.03, False), (1.06, True), (0.9995, True), (0.99, False)])
    def test_the_two_percentages(self, now, fires):
        issues = judged(classic(LossNotDecreasing), numbers("loss", {0: 1.0, 10: now}))
        assert bool(issues) == fires

    def test_what_is_compared_and_when(self):
        flat = numbers("loss", dict.fromkeys(range(0, 40, 3), 1.0))
        assert steps(judged(classic(LossNotDecreasing), flat)) == [(0, 12), (12, 24), (24, 36)]
        late = judged(classic(LossNotDecreasing, start_step=21), flat)
        assert steps(late) == [(9, 21), (21, 33)]

    def test_the_scale_of_mixed_precision_is_no_loss(self):
        rises = {step: 2.0 ** (16 + step // 200) for step in range(1500)}
        issues, window = look(LossNotDecreasing(), job=ENDED, scalars=numbers("loss_scale", rises))
        assert (issues, window.lack.reason) == ([], "no_match")
        assert judged(LossNotDecreasing(), numbers("loss_scaled", rises)) != []

    def test_strict_asks_for_a_decrease(self):
        rose = numbers("loss", {0: 1.0, 10: 1.03})
        assert judged(classic(LossNotDecreasing, strict=True), rose)

    def test_modern_sees_through_noise(self):
        noise = np.random.default_rng(3).normal(1.0, 0.1, 1000)
        falling = {i: 2.0 * 0.999**i * n for i, n in enumerate(noise.tolist())}
        assert judged(LossNotDecreasing(), numbers("loss", falling)) == []
        rising = {i: 1.0 + i / 1000 + n / 100 for i, n in enumerate(noise.tolist())}
        issues = judged(LossNotDecreasing(), numbers("loss", rising))
        assert issues[0].step_end == 219 + 200
        assert issues[0].summary.startswith("loss rose by")

    def test_one_saved_loss_is_too_few(self):
        _, window = look(classic(LossNotDecreasing), job=ENDED, scalars=numbers("loss", {0: 1.0, 3: 1.0}))
        assert window.lack.reason == "too_few_points"
        _, window = look(classic(LossNotDecreasing), job=ENDED, scalars=numbers("auc", {0: 1.0, 30: 1.0}))
        assert window.lack.reason == "no_match"

    def test_evaluation_goes_first_in_classic_and_is_left_out_in_modern(self):
        falls, flat = {i: 1.0 - i / 100 for i in range(40)}, dict.fromkeys(range(40), 1.0)
        both = numbers("loss", falls), numbers("val_loss", flat, mode="eval")
        (issue, *_) = judged(classic(LossNotDecreasing), *both)
        assert issue.tensor == "val_loss"
        modern = LossNotDecreasing(num_steps=10, smooth=2)
        assert judged(modern, *both) == []
        assert judged(LossNotDecreasing(num_steps=10, smooth=2, mode="eval"), *both)

    def test_a_loss_that_is_low_enough_may_stay(self):
        flat = numbers("loss", dict.fromkeys(range(0, 40, 3), 0.01))
        assert judged(classic(LossNotDecreasing, plateau_ok_below=0.02), flat) == []

    def test_a_restart_from_a_checkpoint_starts_over(self):
        before = numbers("loss", {i: 1.0 - i / 100 for i in range(0, 50, 5)})
        after = numbers("loss", {i: 1.0 - i / 100 for i in range(20, 60, 5)})
        after = Table({**after.columns, "time": after["time"] + 100 * SECOND})
        assert judged(classic(LossNotDecreasing), before, after) == []


def training_and_evaluation(pairs, *, every=10):
    """Make train losses over `every` steps before each evaluation, and one value of that."""
    train, evaluation = {}, {}
    for i, (t, v) in enumerate(pairs):
        train |= {i * every + j: t for j in range(every - 1)}
        evaluation[i * every + every - 1] = v
    return numbers("loss", train), numbers("loss", evaluation, mode="eval")


class TestOverfit:
    def test_the_gap(self):
        (issue,) = judged(classic(Overfit), *training_and_evaluation([(1.0, 1.2)]))
        assert issue.evidence["value"] == pytest.approx(0.2)
        assert judged(classic(Overfit), *training_and_evaluation([(1.0, 1.09)])) == []

    def test_patience(self):
        rule = classic(Overfit, patience=2)
        assert judged(rule, *training_and_evaluation([(1.0, 1.2)])) == []
        assert judged(rule, *training_and_evaluation([(1.0, 1.2), (1.0, 1.05), (1.0, 1.2)])) == []
        assert steps(judged(rule, *training_and_evaluation([(1.0, 1.2), (1.0, 1.2)]))) == [(19, 19)]

    def test_modern_wants_evaluation_to_get_worse(self):
        constant = [(1.0 / i, 1.5 / i) for i in range(1, 12)]
        assert judged(Overfit(), *training_and_evaluation(constant)) == []
        worse = [(1.0 / i, 1.0 / i if i < 5 else 0.25 + i / 20) for i in range(1, 12)]
        assert judged(Overfit(), *training_and_evaluation(worse))

    def test_names_tell_the_mode_too(self):
        table = numbers("train-rmse", {0: 1.0}), numbers("validation-rmse", {1: 2.0})
        assert judged(classic(Overfit), *table)
        table = numbers("train_loss", {0: 1.0}), numbers("val_loss", {1: 2.0})
        assert judged(classic(Overfit), *table)

    def test_without_evaluation_it_says_so(self):
        _, window = look(Overfit(), job=ENDED, scalars=numbers("loss", {0: 1.0}))
        assert window.lack.reason == "mode_missing"


class TestOvertraining:
    def test_evaluation_decides(self):
        falls = {i: 1.0 - i / 50 for i in range(40)}
        flat = numbers("loss", dict.fromkeys(range(5, 70, 5), 1.0), mode="eval")
        (issue,) = judged(classic(Overtraining), numbers("loss", falls), flat)
        assert (issue.step_start, issue.step_end) == (5, 55)
        assert issue.evidence["training_still_improves"]

    def test_training_where_nothing_is_evaluated(self):
        flat = numbers("loss", dict.fromkeys(range(6), 1.0))
        assert steps(judged(classic(Overtraining), flat)) == [(0, 5)]
        assert judged(classic(Overtraining), numbers("loss", {i: 1 - i / 50 for i in range(30)})) == []

    def test_delta_is_absolute_in_classic_and_a_share_in_modern(self):
        slow = {i: 8.0 - 0.009 * i for i in range(60)}
        assert judged(classic(Overtraining, delta=0.05), numbers("loss", dict.fromkeys(range(9), 0.02)))
        assert judged(Overtraining(), numbers("loss", slow)) == []
        assert judged(Overtraining(), numbers("loss", dict.fromkeys(range(60), 8.0)))

    def test_both(self):
        flat = dict.fromkeys(range(40), 1.0)
        rule = classic(Overtraining, require="both")
        assert judged(rule, numbers("loss", flat)) == []
        assert judged(rule, numbers("loss", flat), numbers("loss", flat, mode="eval"))


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
