"""StepOutlier: some steps are unusually slow, or one of them stalls the training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.events import device_ns
from holter.analysis.grouping import groups
from holter.analysis.steps.own_code import own_code
from holter.analysis.steps.run_ahead import paced
from holter.analysis.steps.spread import median, spread
from holter.analysis.steps.trainings import by_model, models
from holter.analysis.verdict.evidence import ms, part_name
from holter.rules import Issues, Lookback, Rule, Table, Window, parameter, rule_class
from holter.rules.engine.job_facts import steps_span
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray


_FEW_STEPS = 20
"""A stall can be judged from this number of steps on."""
_SHARE_OF_WORST = 0.1
"""Outliers with a smaller share of the longest one's extra time do not belong to the stall."""
_LEAST_S, _LARGE_SHARE = 2.0, 0.3
"""Less time is no stall; from this on, a large share of all time is one."""
_STEPS = 1_000
"""Number of last steps that are judged, and of changes of the model that are kept."""
_DETAILED = 32
"""Number of processes with statistics: those with the most outliers."""


@rule_class
class StepOutlier(Rule):
    """Too many steps of a rank are far slower than usual without a checkpoint, evaluation or compilation.

    Few such steps are a stall if they cost seconds.
    """

    reads = ("steps", "spans/loop_stack", "events/device_time", "events/model")
    formula = (
        "more than n_outliers steps with, modern: duration > median + stddev x max(MAD, 0.02 x median) and "
        "> (1 + min_relative) x median; classic: duration > mean + stddev x standard deviation; "
        "modern, with fewer: their extra time >= stall_s, or >= 30 % of these steps' time; a note below "
        "stall_pct"
    )
    advice = (
        "Look at the part of the slow steps that takes the extra time; the evidence names the part that "
        "grew most."
    )
    packs = ("default", "performance", "sagemaker")
    every_s = 60.0

    stddev: float = parameter(5.0, classic=3.0, above=0, aliases=("threshold",))
    """Number of deviations above the middle from which a step is an outlier."""
    mode: str | None = parameter(None, choices=("train", "eval", "predict", "global"))
    """Only steps of this mode."""
    n_outliers: int = parameter(10, low=0, unit="steps")
    """Number of outliers allowed; in the modern profile per thousand steps, and in total for fewer."""
    min_steps: int = parameter(100, low=1, unit="steps")
    """The rule judges only after more steps than this."""
    min_relative: float = parameter(0.3, classic=0.0, low=0)
    """By which share of the median an outlier must exceed it; 0 = not checked."""
    min_extra_ms: float = parameter(10.0, classic=0.0, low=0, unit="ms")
    """A smaller mean excess over the median is a note at most: jitter."""
    min_lost_s: float = parameter(5.0, classic=0.0, low=0, unit="s")
    """A smaller total excess is a note at most."""
    stall_s: float = parameter(5.0, above=0, unit="s")
    """Extra time of few outliers from which they are a stall, in the modern profile."""
    stall_pct: float = parameter(15.0, low=0, high=100, unit="%")
    """A stall that takes a smaller share of the loop's time so far is a note."""
    robust: bool = parameter(True, classic=False)
    """Use median and MAD, which outliers do not move, instead of mean and standard deviation."""

    @property
    def lookback(self) -> Lookback:
        """The last thousand steps, or as many as can be kept; stack samples of the last moments."""
        return Lookback(steps=_STEPS, seconds=90.0) if self.robust else Lookback(steps=10_000)

    def evaluate(self, window: Window) -> Issues:
        """Judge each rank and mode by itself."""
        devices, trained = self._devices(window), self._models(window)
        if window.unchanged("steps"):
            return
        steps = window.warm if self.robust else window.steps
        if not steps.rows:
            return window.insufficient("no_input", "no step after warm-up" if self.robust else "no step")
        judged: dict[str, tuple[Table, NDArray[np.bool_]]] = {}
        for (rank, mode), where in sorted(groups(steps["rank"], steps["mode"]).items()):
            if self.mode is not None and mode != self.mode:
                continue
            mine = steps.where(where).sorted("time", "step", "duration")
            if self.robust and rank in devices:
                mine = paced(mine, devices)
            if self.robust:
                # The steps of another model say nothing about those of the model that trains now.
                mine = mine.where(by_model(mine, np.arange(mine.rows), trained)[-1])
            if self.robust and mine.rows >= _FEW_STEPS:
                yield from self._stall(window, mine)
            if mine.rows <= self.min_steps:
                window.too_few(f"rank {rank} has too few steps of mode {mode}", mine.rows, self.min_steps + 1)
                continue
            window.judged(mine.rows)
            limit, slow = self._outliers(mine)
            judged[f"{mode}/{rank}"] = mine, slow
            yield from self._judge(mine, limit, slow)
        window.hand_over(lambda: self._of_worst(judged))
        if not window.points and window.lack is None:
            window.insufficient("mode_missing", f"no step of mode {self.mode}")

    def _devices(self, window: Window) -> dict[int, int]:
        """Return the time of each rank's device for a step, as it was told last."""
        told: dict[str, int] = window.state.setdefault("device_ns", {})
        told.update((str(rank), taken) for rank, taken in device_ns(window.new("events")).items())
        return {int(rank): taken for rank, taken in told.items()}

    def _models(self, window: Window) -> dict[int, list[tuple[int, str]]]:
        """Return the steps in which each rank began to train another model, and its name."""
        told: dict[str, list[tuple[int, str]]] = window.state.setdefault("models", {})
        for rank, begun in models(window.new("events")).items():
            told[str(rank)] = [*told.get(str(rank), ()), *begun][-_STEPS:]
        return {int(rank): [(step, model) for step, model in begun] for rank, begun in told.items()}

    def _of_worst(self, judged: dict[str, tuple[Table, NDArray[np.bool_]]]) -> dict[str, object]:
        worst = sorted(judged, key=lambda key: (-int(judged[key][1].sum()), key))
        return {"processes": {key: _details(*judged[key], self.stddev) for key in worst[:_DETAILED]}}

    def _outliers(self, steps: Table) -> tuple[int, NDArray[np.bool_]]:
        """Return the step-time limit in ns, and the steps beyond it without a known reason."""
        duration = steps["duration"].astype(np.float64)
        middle = median(duration)
        if self.robust:
            limit = middle + self.stddev * max(spread(duration, middle), 0.02 * middle)
        else:
            limit = float(duration.mean()) + self.stddev * float(duration.std())
        # Whole nanoseconds, so that a step exactly at the limit is not an outlier after rounding.
        limit = max(round(limit), round((1 + self.min_relative) * middle))
        slow = duration > limit
        if self.robust:
            slow &= (steps["checkpoint"] + steps["eval"] + steps["compile"]) * 2 <= duration - middle
            # Training that starts slowly, as in a first epoch, does not have outliers.
            first = np.flatnonzero(2 * np.cumsum(slow) >= np.arange(1, len(slow) + 1))
            if len(first) and first[-1] >= self.min_steps:
                slow[: first[-1] + 1] = False
        return limit, slow

    def _stall(self, window: Window, steps: Table) -> Issues:
        """Report few steps that together take seconds longer than usual."""
        limit, slow = self._outliers(steps)
        if not slow.any():
            return
        duration = steps["duration"].astype(np.float64)
        usual = median(duration)
        # Jitter of short steps does not belong to it, however many steps it makes longer.
        slow &= duration - usual >= _SHARE_OF_WORST * (duration[slow].max() - usual)
        if slow.sum() > self._allowed(steps.rows):
            return
        worst = steps.where(slow)
        lost_s = float((duration[slow] - usual).sum()) / 1e9
        seen_s = float(duration.sum()) / 1e9
        if lost_s < self.stall_s and (lost_s < _LEAST_S or lost_s < _LARGE_SHARE * seen_s):
            return
        row = int(worst["duration"].argmax())
        first = worst.where(worst["step"] == worst["step"][row])
        grown = {p: float(first[p][0] - median(steps[p])) / 1e6 for p in BREAKDOWN}
        cause = max(grown, key=lambda part: grown[part])
        began = window.job.first_step if window.job.first_step is not None else window.job.start
        share = 100e9 * lost_s / max(window.end - began, 1)
        number, took = int(first["step"][0]), float(first["duration"][0]) / 1e6
        said = f"step {number:,} took {ms(took)}"
        if worst.rows > 1:
            said = f"{worst.rows} steps took {lost_s:.3g} s longer; the longest, {said.replace(' took', ',')}"
        where = self._function(window, first) if cause == "other" else ""
        yield self.issue(
            f"{said}; the typical step takes {ms(usual / 1e6)}; {part_name(cause)} took "
            f"{ms(grown[cause])} longer" + (f": {where}" if where else ""),
            code="stall",
            severity=self.severity if share >= self.stall_pct else "info",
            rank=int(steps["rank"][0]),
            node=str(steps["node"][0]) or None,
            **steps_span(worst),
            evidence={
                "steps_slowest_first": worst["step"][np.argsort(-worst["duration"])][:20].tolist(),
                "median_ms": usual / 1e6,
                "limit_ms": limit / 1e6,
                "slowest_ms": took,
                "lost_s": lost_s,
                "loop_pct": share,
                "extra_ms": {p: value for p, value in grown.items() if value > 0},
                "function": where or None,
            },
        )

    def _function(self, window: Window, step: Table) -> str:
        """Return the function that took most of a step, as stack samples name it; kept while it is known."""
        named: dict[str, str] = window.state.setdefault("named", {})
        key = f"{step['rank'][0]}/{step['step'][0]}"
        share = 100.0 * float(step["other"][0]) / max(float(step["duration"][0]), 1.0)
        if found := own_code(window.spans_of("loop_stack"), step, share):
            window.state["named"] = named = {key: found[0].text}
        return named.get(key, "")

    def _allowed(self, steps: int) -> float:
        return self.n_outliers * (max(1.0, steps / 1000) if self.robust else 1.0)

    def _judge(self, steps: Table, limit: int, slow: NDArray[np.bool_]) -> Issues:
        count = int(slow.sum())
        if count <= self._allowed(steps.rows):
            return
        worst, middle = steps.where(slow), median(steps["duration"].astype(np.float64))
        extra = {p: float(worst[p].mean() - np.median(steps[p])) for p in BREAKDOWN}
        cause = max(extra, key=lambda part: extra[part])
        evidence = {
            "outliers": count,
            "steps": steps.rows,
            "median_ms": middle / 1e6,
            "limit_ms": limit / 1e6,
            "slowest_ms": float(steps["duration"].max()) / 1e6,
            "extra_ms": {p: ns / 1e6 for p, ns in extra.items() if ns > 0},
            "steps_slowest_first": worst["step"][np.lexsort((worst["step"], -worst["duration"]))][
                :20
            ].tolist(),
        }
        beyond = float(worst["duration"].mean() - middle) / 1e6
        jitter = beyond < self.min_extra_ms or count * beyond / 1e3 < self.min_lost_s
        yield self.issue(
            f"{count} of {steps.rows} steps took more than {limit / 1e6:.3g} ms "
            f"(median {middle / 1e6:.3g} ms); the extra time is mostly {cause}",
            severity="info" if jitter else self.severity,
            rank=int(steps["rank"][0]),
            node=str(steps["node"][0]) or None,
            **steps_span(worst),
            evidence=evidence,
        )


def _details(steps: Table, slow: NDArray[np.bool_], stddev: float) -> dict[str, object]:
    """Return the classic report's statistics of one process; times in ms."""
    duration = steps["duration"] / 1e6
    normal = duration[~slow]
    low, high = (float(normal.min()), float(normal.max())) if len(normal) else (0.0, 0.0)
    place = (normal - low) / ((high - low) or 1.0) * 100
    counts = np.bincount(np.minimum(place.astype(np.int64), 99), minlength=100)
    points = dict(zip(("p99", "p95", "p50"), np.percentile(duration, (99, 95, 50)).tolist(), strict=True))
    return {
        "mean": float(duration.mean()),
        "max": float(duration.max()),
        **points,
        "min": float(duration.min()),
        "number_of_outliers": int(slow.sum()),
        "phase": str(steps["mode"][0]),
        "stddev": stddev,
        "histogram": {"counts": counts.tolist(), "from": low, "to": high},
        "step_numbers": np.sort(steps["step"][slow])[:100].tolist(),
    }
