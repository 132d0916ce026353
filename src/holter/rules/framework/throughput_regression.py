"""ThroughputRegression: training becomes slower over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.steps.spread import median
from holter.rules import Issues, Rule, State, Window, parameter, rule_class
from holter.rules.engine.levels import severity_of
from holter.rules.patterns.speed import Block, add, mann_whitney
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNITS = ("tokens", "samples")
_CHANCE = 1e-3
_WAITING = 5_000
"""Number of steps that may wait for their tokens or samples."""


@rule_class
class ThroughputRegression(Rule):
    """Tokens, samples or steps per second have fallen below what this job, or a baseline, reached.

    A block is 200 steps, of short steps half a minute. What was reached in two blocks in a row is the
    reference; what two blocks in a row fail to reach is compared with it, so neither one lucky nor one
    unlucky block counts.
    """

    reads = ("steps", "scalars")
    formula = (
        "1 - (better median of the last two blocks of steps / best speed of two blocks in a row, or the "
        "baseline) >= info, warning, or critical, with Mann-Whitney p < 0.001"
    )
    advice = (
        "Look at the part of the step that grew most and at what changed at that time: another job on the "
        "machine, heat, storage, a cache that no longer fits, or a replaced node."
    )
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2

    info: float | None = parameter(5.0, low=0, high=100, unit="%", aliases=("threshold",))
    """Loss of speed from which the rule reports a note."""
    warning: float | None = parameter(10.0, low=0, high=100, unit="%")
    """Loss of speed that is a warning."""
    critical: float | None = parameter(25.0, low=0, high=100, unit="%")
    """Loss of speed that is critical; a warning when only steps are known, because their size may vary."""
    baseline: float | None = parameter(None, above=0, unit="per second")
    """Speed of an earlier job with the same configuration and unit; it counts when it is higher."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the lowest rank, because all ranks of a synchronous training are equally fast."""
        state = window.state
        self._learn(window)
        if window.unchanged("steps"):
            return
        blocks: list[Block] = state.get("blocks", [])
        if "rank" not in state:
            return window.insufficient("no_input", "no step after warm-up")
        best: list[Block] | None = state.get("best")
        need = 2 if self.baseline else 4
        if len(blocks) < 2 or state["count"] < need:
            text = "too few steps and too little time for a comparison, in blocks"
            return window.too_few(text, state["count"], need)
        window.judged(len(blocks[0]["points"]) + len(blocks[1]["points"]))
        current = max(_median(block) for block in blocks)
        reference = min(_median(block) for block in best) if best else 0.0
        given = self.baseline is not None and self.baseline > reference
        reference = self.baseline if self.baseline is not None and given else reference
        if reference <= 0 or current >= reference:
            return
        drop = 100.0 * (1 - current / reference)
        severity = severity_of(drop, self.info, self.warning, self.critical)
        chance = None if given or best is None else mann_whitney(_points(blocks), _points(best))
        if severity is None or (chance is not None and chance >= _CHANCE):
            return
        unit = state["unit"]
        grown = {} if given or best is None else _grown(best, blocks)
        part = next(iter(grown), None)
        yield self.issue(
            f"training is {drop:.0f} % slower than {'its baseline' if given else 'it was'}: {current:.4g} "
            f"{unit}/s, before {reference:.4g}" + (f"; mostly {part} grew" if part else ""),
            severity="warning" if severity == "critical" and unit == "steps" else severity,
            step_start=blocks[0]["first"],
            step_end=blocks[-1]["last"],
            time_end=blocks[-1]["end"],
            evidence={
                "drop_pct": drop,
                "unit": unit,
                "per_second": current,
                "reference_per_second": reference,
                "reference_steps": None if best is None else [best[0]["first"], best[-1]["last"]],
                "probability": chance,
                "grown_ms_per_unit": grown,
                "rank": state["rank"],
            },
        )

    def _learn(self, window: Window) -> None:
        """Group the new steps of one rank into blocks; keep the last two and the best two in a row."""
        state = window.state
        steps = window.steady
        if "rank" not in state:
            _note_units(state, window.new("scalars"), None)
            if not steps.rows:
                return
            state["rank"] = int(steps["rank"].min())
        rank = state["rank"]
        _note_units(state, window.new("scalars"), rank)
        steps = steps.where(steps["rank"] == rank).sorted("time", "step", "duration")
        for block in add(
            state.setdefault("speed", {}), *self._with_units(state, steps, ended=window.job.ended)
        ):
            blocks = state["blocks"] = [*state.get("blocks", []), block][-2:]
            state["count"] = state.get("count", 0) + 1
            pair = min(_median(b) for b in blocks)
            if len(blocks) == 2 and ("best" not in state or pair > min(_median(b) for b in state["best"])):
                state["best"] = blocks
        state.setdefault("count", 0)

    def _with_units(self, state: State, steps: Table, *, ended: bool) -> tuple[Table, NDArray[np.float64]]:
        """Return the steps whose units are known; the others wait for a later record."""
        if not state.get("unit"):
            state["unit"] = next((name for name in _UNITS if name in state.get("logged", {})), "steps")
        if state["unit"] == "steps":
            return steps, np.ones(steps.rows)
        logged: dict[str, float] = state["logged"][state["unit"]]
        if state.get("waiting"):
            steps = Table.concat([Table.of("steps", state["waiting"]), steps])
        ready = (steps["step"] <= state["newest"][state["unit"]]) | ended
        ready |= np.arange(steps.rows) < steps.rows - _WAITING
        state["waiting"] = list(steps.where(~ready).to_rows())
        units = []
        for step in steps["step"][ready].tolist():
            state["usual"] = logged.pop(str(step), state.get("usual", 0.0))
            units.append(state["usual"])
        # The rest belongs to ignored steps: evaluations, compilations, checkpoints.
        done = int(steps["step"][ready][-1]) if ready.any() else -1
        for step in [step for step in logged if int(step) <= done]:
            del logged[step]
        for step in list(logged)[:-_WAITING]:
            del logged[step]
        return steps.where(ready), np.array(units, dtype=np.float64)


def _note_units(state: State, scalars: Table, rank: int | None) -> None:
    """Keep the number of units per step of the judged rank."""
    logged: dict[str, dict[str, float]] = state.setdefault("logged", {})
    chosen = np.isin(scalars["name"].astype(str), _UNITS) & np.isfinite(scalars["value"])
    chosen &= (scalars["value"] > 0) & (scalars["mode"] != "eval")
    if rank is not None:
        chosen &= scalars["rank"] == rank
    rows = scalars.where(chosen).sorted("time", "step", "value")
    for name, step, value in zip(*(rows[c].tolist() for c in ("name", "step", "value")), strict=True):
        if rank is not None or name not in logged:
            logged.setdefault(name, {})[str(step)] = value
            state.setdefault("newest", {})[name] = step


def _median(block: Block) -> float:
    return median(np.asarray(block["points"]))


def _points(blocks: list[Block]) -> NDArray[np.float64]:
    return np.concatenate([block["points"] for block in blocks])


def _grown(before: list[Block], now: list[Block]) -> dict[str, float]:
    """Return the parts that take longer per unit of work than before, in ms, largest first."""

    def each(blocks: list[Block]) -> dict[str, float]:
        units = sum(block["units"] for block in blocks) or 1.0
        return {part: sum(block["parts"][part] for block in blocks) / units / 1e6 for part in BREAKDOWN}

    old, new = each(before), each(now)
    found = {part: new[part] - old[part] for part in BREAKDOWN if new[part] > old[part]}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
