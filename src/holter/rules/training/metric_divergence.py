"""MetricDivergence: a validation metric worsens while the training loss falls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from holter.analysis.steps.spread import spread
from holter.rules import Issues, Rule, Window, parameter
from holter.rules.engine.complete_steps import complete_steps
from holter.rules.engine.trend import theil_sen
from holter.rules.patterns.logged import MAIN_LOSS, Curve, by_step, pattern

_VALIDATION = r"(^|[^a-z])(val|valid|validation|eval|dev|test)[^a-z]"
_HIGH = (
    r"acc|accuracy|f1|auc|auroc|map|ap|precision|recall|bleu|rouge|meteor|dice|iou|miou|score|reward|r2|"
    r"psnr|ssim"
)
_LOW = r"err|error|wer|cer|mse|mae|rmse|ppl|perplexity|fid"
_BASE, _KEPT = 10, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDivergence(Rule):
    """A validation metric gets worse while the training loss falls."""

    reads = ("scalars",)
    formula = (
        "each of the last `evaluations` values of the metric is worse than the median of the ten before by "
        "more than mads x MAD, while the Theil-Sen slope of the training loss over them is < 0"
    )
    advice = "Stop or restart from the best checkpoint, regularise, and check that the loss matches the goal."
    packs = ("convergence",)

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

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        for name in ("metrics", "lower_is_better", "losses"):
            pattern(self, name)

    def evaluate(self, window: Window) -> Issues:
        """Judge each metric at each of its evaluations."""
        state, new = window.state, window.new("scalars")
        kinds = {name: self._kind(name) for name in set(new["name"].tolist())}
        kind = np.array([kinds[name] for name in new["name"].tolist()], dtype="U6")
        training = (kind == "loss") & (new["mode"] != "eval") & (new["mode"] != "predict")
        mine = new.where(training | (kind == "metric"))
        for one in complete_steps(
            mine, state.setdefault("rows", {}), ("name", "value"), ended=window.job.ended
        ):
            names = sorted(set(one.rows["name"].tolist()))
            series = {name: by_step(one, name) for name in names}
            losses = [series[name] for name in names if self._kind(name) == "loss"]
            metrics = {name: series[name] for name in names if self._kind(name) == "metric"}
            yield from self._walk(window, losses[:1], metrics)
        if not state.get("metrics"):
            window.insufficient("no_input", "no validation metric is logged, for example val_accuracy")
        elif not window.points:
            most = max(len(m["values"]) for m in state["metrics"].values())
            need = _BASE + self.evaluations
            window.insufficient("too_few_points", "too few evaluations", have=most, need=need)

    def _kind(self, name: str) -> str:
        if pattern(self, "losses").search(name):
            return "loss"
        return "metric" if pattern(self, "metrics").search(name) and not re.search("(?i)loss", name) else ""

    def _walk(self, window: Window, losses: list[Curve], metrics: dict[str, Curve]) -> Issues:
        """Iterate over the steps and collect losses; an evaluation takes their median."""
        known: dict[str, dict[str, Any]] = window.state.setdefault("metrics", {})
        since: list[float] = window.state.setdefault("since", [])
        moments = [(s, 0, "", v) for one in losses for s, v in zip(one.steps, one.values, strict=True)]
        moments += [
            (s, 1, n, v) for n, one in metrics.items() for s, v in zip(one.steps, one.values, strict=True)
        ]
        done = None
        for step, is_metric, name, value in sorted(moments):
            if not np.isfinite(value):
                continue
            if not is_metric:
                since.append(value)
                del since[:-1000]
                continue
            if since and done != step:
                window.state["loss"], done = float(np.median(since)), step
                since.clear()
            one = known.setdefault(name, {"steps": [], "values": [], "losses": []})
            for key, item in (("steps", step), ("values", value), ("losses", window.state.get("loss"))):
                one[key].append(item)
                del one[key][:-_KEPT]
            yield from self._judge(window, name, one)

    def _judge(self, window: Window, name: str, one: dict[str, Any]) -> Issues:
        last = self.evaluations
        if len(one["values"]) < _BASE + last:
            return
        window.judged(1)
        sign = 1.0 if pattern(self, "lower_is_better").search(name) else -1.0
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
