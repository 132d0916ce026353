"""MetricDivergence: a validation metric worsens while the training loss falls."""

from __future__ import annotations

import re
from typing import TypedDict

import numpy as np

from holter.analysis.steps.spread import spread
from holter.rules import Issues, Window, parameter, rule_class
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.engine.trend import theil_sen
from holter.rules.patterns.collections import tested
from holter.rules.patterns.logged import MAIN_LOSS, Curve, PatternRule, by_step, trained

_VALIDATION = r"(^|[^a-z])(val|valid|validation|eval|dev|test)[^a-z]"
_HIGH = (
    r"acc|accuracy|f1|auc|auroc|map|ap|precision|recall|bleu|rouge|meteor|dice|iou|miou|score|reward|r2|"
    r"psnr|ssim"
)
_LOW = r"err|error|wer|cer|mse|mae|rmse|ppl|perplexity|fid"
_BASE, _KEPT = 10, 60


class _Metric(TypedDict):
    """The last evaluations of a metric, each with the training loss before it."""

    steps: list[int]
    values: list[float]
    losses: list[float | None]


@rule_class
class MetricDivergence(PatternRule):
    """A validation metric gets worse while the training loss falls."""

    reads = ("scalars",)
    formula = (
        "each of the last `evaluations` values of the metric is worse than the median of the ten before by "
        "more than mads x MAD, while the Theil-Sen slope of the training loss over them is < 0"
    )
    advice = "Stop or restart from the best checkpoint, regularise, and check that the loss matches the goal."
    packs = ("convergence",)
    patterns = ("metrics", "lower_is_better", "losses")

    metrics: str = parameter(rf"(?i){_VALIDATION}(.*[^a-z])?({_HIGH}|{_LOW})([^a-z]|$)", aliases=("metric",))
    """Pattern of the validation metrics, anywhere in their names; Overfit judges losses."""
    lower_is_better: str = parameter(rf"(?i)(^|[^a-z])({_LOW})([^a-z]|$)")
    """Pattern of the metrics for which lower is better."""
    losses: str = parameter(MAIN_LOSS)
    """Pattern of the training loss."""
    evaluations: int = parameter(5, low=2, high=30)
    """Number of evaluations in a row that must be worse."""
    mads: float = parameter(2.0, above=0)
    """By how many MADs an evaluation must be worse."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each metric at each of its evaluations."""
        state, new = window.state, window.new("scalars")
        loss = tested(new["name"], lambda name: self._kind(name) == "loss") & trained(new)
        mine = new.where(loss | tested(new["name"], lambda name: self._kind(name) == "metric"))
        rows = state.setdefault("rows", {})
        for one in complete_steps(mine, rows, ("name", "value"), ended=window.job.ended):
            series = {name: by_step(one, name) for name in sorted(set(one.rows["name"].tolist()))}
            losses = [series[name] for name in series if self._kind(name) == "loss"]
            metrics = {name: series[name] for name in series if self._kind(name) == "metric"}
            yield from self._judge_steps(window, losses[:1], metrics)
        if not state.get("metrics"):
            window.insufficient("no_input", "no validation metric is logged, for example val_accuracy")
        elif not window.points:
            most = max(len(m["values"]) for m in state["metrics"].values())
            need = _BASE + self.evaluations
            window.insufficient("too_few_points", "too few evaluations", have=most, need=need)

    def _kind(self, name: str) -> str:
        if re.search(self.losses, name):
            return "loss"
        return "metric" if re.search(self.metrics, name) and not re.search("(?i)loss", name) else ""

    def _judge_steps(self, window: Window, losses: list[Curve], metrics: dict[str, Curve]) -> Issues:
        """Collect losses step by step; each evaluation takes their median."""
        known: dict[str, _Metric] = window.state.setdefault("metrics", {})
        since: list[float] = window.state.setdefault("since", [])
        curves = [(0, "", one) for one in losses] + [(1, name, one) for name, one in metrics.items()]
        moments = [(s, n, name, v) for n, name, c in curves for s, v in zip(c.steps, c.values, strict=True)]
        done = None
        for step, is_metric, name, value in sorted(moments):
            if not np.isfinite(value):
                continue
            if not is_metric:
                if known:  # the losses before the first evaluation are never judged
                    since.append(value)
                    del since[:-1000]
                continue
            if since and done != step:
                window.state["loss"], done = float(np.median(since)), step
                since.clear()
            one = known.setdefault(name, {"steps": [], "values": [], "losses": []})
            one["steps"] = [*one["steps"], step][-_KEPT:]
            one["values"] = [*one["values"], value][-_KEPT:]
            one["losses"] = [*one["losses"], window.state.get("loss")][-_KEPT:]
            yield from self._judge(window, name, one)

    def _judge(self, window: Window, name: str, one: _Metric) -> Issues:
        last = self.evaluations
        if len(one["values"]) < _BASE + last:
            return
        window.judged(1)
        sign = 1.0 if re.search(self.lower_is_better, name) else -1.0
        worse = sign * np.array(one["values"])
        base = float(np.median(worse[-_BASE - last : -last]))
        steps = np.diff(worse)
        noise = max(spread(steps, float(np.median(steps))) / np.sqrt(2), 0.005 * abs(base), 1e-12)
        losses = [loss for loss in one["losses"][-last:] if loss is not None]
        falls = len(losses) == last and theil_sen(np.array(losses)) < 0
        if falls and bool(np.all(worse[-last:] > base + self.mads * noise)):
            now = float(np.median(one["values"][-last:]))
            yield self.issue(
                f"{name} has worsened from {sign * base:.4g} to {now:.4g} while the training loss fell",
                tensor=name,
                step_start=one["steps"][-last],
                step_end=one["steps"][-1],
                evidence={"was": sign * base, "now": now, "noise": noise, "losses": losses},
            )
