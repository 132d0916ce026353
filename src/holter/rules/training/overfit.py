"""Overfit: the validation loss is clearly above the training loss."""

from __future__ import annotations

import numpy as np

from holter.analysis.steps.spread import spread
from holter.rules import Issues, State, Window, parameter, rule_class
from holter.rules.patterns.losses import LossRule, Points

NOISE_VALUES = 5
"""Number of last values from which the noise of evaluation is estimated."""


@rule_class
class Overfit(LossRule):
    """The mean loss of an evaluation is far above that of the training since the evaluation before."""

    formula = (
        "(V - T) / |T| > ratio_threshold at `patience` evaluations in a row; V and T are the mean losses of"
        " an evaluation and of the training since the previous one; modern: also V > best V + 2 x MAD of "
        "its last 5"
    )
    advice = (
        "Regularise, augment the data, or stop earlier and restore the best checkpoint. Make sure that both"
        " losses are computed the same way."
    )
    packs = ("convergence", "sagemaker")

    patience: int = parameter(3, classic=1, low=1, unit="evaluations")
    """Number of evaluations in a row at which the gap must be too wide."""
    ratio_threshold: float = parameter(0.2, classic=0.1, low=0)
    """By which share the validation loss may exceed the training loss."""
    min_val_points: int = parameter(5, classic=1, low=1, unit="evaluations")
    """Number of evaluations that the rule needs."""
    must_rise: bool = parameter(True, classic=False)
    """Report only when validation is worse than its best: a constant gap may be intended."""

    def judge_group(self, window: Window, group: list[Points], state: State) -> Issues:
        """Match training and evaluation; judge an evaluation when it has ended."""
        if not state:
            state.update(train=[0.0, 0], eval=[0.0, 0], past=[], best=None, modes=[])
        rows = sorted(
            (int(t), p.mode == "eval", int(s), float(v), p.name, p.rank, p.node)
            for p in group
            for t, s, v in zip(p.time.tolist(), p.step.tolist(), p.value.tolist(), strict=True)
        )
        for time, evaluation, step, value, name, rank, node in rows:
            if not evaluation and state["eval"][1]:
                yield from self._ended(window, state)
            side = "eval" if evaluation else "train"
            state["modes"] = sorted({*state["modes"], side})
            total, count = state[side]
            state[side] = [total + value, count + 1]
            if evaluation:
                state["at"] = {"time": time, "step": step, "name": name, "rank": rank, "node": node}
            else:
                state["last"] = value
        if window.job.ended and state["eval"][1]:
            yield from self._ended(window, state)

    def lacking(self, window: Window, *, known: bool, text: str = "") -> None:
        """Report why no evaluation was judged."""
        modes = {mode for state in window.state["series"].values() for mode in state["modes"]}
        if known and len(modes) < 2:
            window.insufficient("mode_missing", "losses of both training and evaluation must be logged")
        else:
            LossRule.lacking(self, window, known=known, text="no evaluation has ended yet")

    def _ended(self, window: Window, state: State) -> Issues:
        """Judge the evaluation that has just ended, and start over."""
        (trained, steps), (evaluated, values), at = state["train"], state["eval"], state["at"]
        state["train"], state["eval"] = [0.0, 0], [0.0, 0]
        train = trained / steps if steps else state.get("last")
        if train is None or not self.due(at["step"]):
            return
        value = evaluated / values
        window.judged(1)
        gap = (value - train) / max(abs(train), 1e-12)
        state["past"] = [*state["past"], value][-NOISE_VALUES:]
        state["count"] = state.get("count", 0) + 1
        middle = float(np.median(state["past"]))
        noise = spread(np.array(state["past"]), middle)
        risen = state["best"] is not None and value > state["best"] + 2 * noise
        state["best"] = value if state["best"] is None else min(value, state["best"])
        wide = gap > self.ratio_threshold and value > train and (risen or not self.must_rise)
        state["held"] = state.get("held", 0) + 1 if wide else 0
        if state["held"] < self.patience or state["count"] < self.min_val_points:
            return
        yield self.issue(
            f"{at['name']} is {value:.5g} in evaluation and {train:.5g} in training at step {at['step']}: "
            f"{100 * gap:.3g} % more",
            tensor=at["name"], rank=at["rank"], node=at["node"] or None,
            step_start=at["step"], step_end=at["step"], time_start=at["time"], time_end=at["time"],
            evidence={
                "name": at["name"], "evaluation": value, "training": train, "value": gap, "comparator": ">",
                "threshold": self.ratio_threshold, "best_evaluation": state["best"],
                "evaluations_in_a_row": state["held"],
            },
        )  # fmt: skip
