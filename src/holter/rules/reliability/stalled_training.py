"""Training that has stopped moving, and ranks that are gone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import Issue, Lookback, Rule, Window, parameter

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledTraining(Rule):
    """A rank hangs, is lost, or has ended no step for far longer than its steps take."""

    reads = (
        "steps",
        "events/hang",
        "events/lost",
        "events/exit",
        "samples/gpu.util",
        "samples/gpu.power",
        "samples/gpu.power_limit",
    )
    severity = "critical"
    tells_once = True
    description = "training has stopped moving"
    formula = (
        "no progress for clamp(factor x p99 of the last 200 steps, min_s, max_s); critical beyond 3 x that"
    )
    advice = "Look at the stacks of the ranks that hang; first at those that are not where the others wait."
    packs = ("default", "essentials")

    factor: float = parameter(10.0, low=1)
    """Silence allowed, as a multiple of the 99th percentile of the last 200 steps."""
    min_s: float = parameter(120.0, classic=1800.0, above=0, unit="s")
    """Silence that is always allowed."""
    max_s: float = parameter(1800.0, above=0, unit="s", aliases=("threshold",))
    """Silence that is never allowed."""

    @property
    def lookback(self) -> Lookback:
        """The steps that tell how long a step takes, and what the GPUs do now."""
        return Lookback(steps=200, seconds=60.0)

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Judge what the agent saw of the processes, then the silence of ranks nobody watched."""
        state = window.state
        hangs: dict[str, Any] = state.setdefault("hangs", {})
        gone: list[int] = state.setdefault("gone", [])
        for row in window.new("events").to_rows():
            detail = _detail(row["detail"])
            if row["kind"] == "lost":
                gone.append(row["rank"])
                window.judged(1)
                yield self._lost(row, detail)
            elif row["kind"] == "exit" and detail.get("role", "trainer") == "trainer":
                gone.append(row["rank"])
            elif row["kind"] == "hang" and detail.get("recovered"):
                _recover(hangs, detail.get("rank", row["rank"]))
            elif row["kind"] == "hang":
                hangs[f"{row['rank']} {row['time']}"] = {
                    **detail,
                    "at": row["time"],
                    "told": "",
                    "rank": row["rank"],
                }
        for hang in hangs.values():
            yield from self._hang(window, hang)
        yield from self._silent(window, gone)
        if not window.points and window.lack is None:
            window.insufficient("no_input", "no step has ended and no process was watched")

    def _lost(self, row: dict[str, Any], detail: dict[str, Any]) -> Issue:
        step = detail.get("step")
        return self.issue(
            f"rank {row['rank']} is lost" + (f" since step {step}" if step is not None else ""),
            code="lost",
            rank=row["rank"],
            node=row["node"] or None,
            step_start=step,
            step_end=step,
            time_start=row["time"],
            time_end=row["time"],
            evidence={key: detail.get(key) for key in ("step", "phase", "exception", "living")},
        )

    def _hang(self, window: Window, hang: dict[str, Any]) -> Iterator[Issue]:
        """Tell a hang once when it is seen, and once more when it has become critical."""
        window.judged(1)
        limit = float(hang.get("limit_s") or self.min_s)
        silent = float(hang.get("silent_s") or limit) + (window.end - hang["at"]) / 1e9
        severity = "critical" if silent > 3 * limit else "warning"
        if hang["told"] in (severity, "critical"):
            return
        hang["told"] = severity
        ranks = hang.get("ranks") or ([hang["rank"]] if hang["rank"] >= 0 else [])
        who = f"rank {ranks[0]} hangs" if len(ranks) == 1 else f"{len(ranks) or 'all'} ranks hang"
        where = f" in {hang['phase']}" if hang.get("phase") else ""
        at = f" at step {hang['step']}" if hang.get("step") is not None else ""
        yield self.issue(
            f"{who}{where}{at}: " + (hang.get("text") or f"no progress for {silent:.0f} s"),
            code="hang",
            severity=severity,
            rank=ranks[0] if len(ranks) == 1 else None,
            step_start=hang.get("step"),
            step_end=hang.get("step"),
            time_start=hang["at"] - round(float(hang.get("silent_s") or 0.0) * 1e9),
            time_end=window.end,
            evidence={
                "silent_s": silent,
                "limit_s": limit,
                "kind": hang.get("kind"),
                "spinning_gpus": _spinning(window),
                "ranks": ranks,
                "frame": hang.get("own_frame") or hang.get("frame"),
            },
        )

    def _silent(self, window: Window, gone: list[int]) -> Iterator[Issue]:
        steps, told = window.steps, window.state.setdefault("silent", {})
        for rank in np.unique(steps["rank"]).tolist():
            mine = steps.where(steps["rank"] == rank)
            last = max(int((mine["time"] + mine["duration"]).max()), window.job.active.get(rank, 0))
            silent = (window.end - last) / 1e9
            window.judged(mine.rows)
            if silent <= min(self.min_s, self.max_s):
                told.pop(str(rank), None)
                continue
            limit = min(
                max(self.factor * float(np.percentile(mine["duration"], 99)) / 1e9, self.min_s), self.max_s
            )
            # An agent that watches the process knows what is open, as a checkpoint, and tells a hang.
            limit = self.max_s if window.job.trainers else limit
            severity = "critical" if silent > 3 * limit else "warning"
            if silent <= limit or rank in gone:
                told.pop(str(rank), None)
            elif told.get(str(rank)) != severity:
                told[str(rank)] = severity
                step = int(mine["step"].max())
                yield self.issue(
                    f"rank {rank} has made no progress for {silent:.0f} s after step {step}, "
                    f"beyond the {limit:.0f} s allowed",
                    code="silent",
                    severity=severity,
                    rank=rank,
                    step_start=step,
                    step_end=step,
                    time_start=last,
                    time_end=window.end,
                    evidence={"silent_s": silent, "limit_s": limit, "spinning_gpus": _spinning(window)},
                )


def _recover(hangs: dict[str, Any], rank: int) -> None:
    """Forget that a rank hangs; one hang may be of several, and is over with the last of them."""
    for key, hang in list(hangs.items()):
        ranks = [one for one in hang.get("ranks") or [hang["rank"]] if one not in (rank, -1)]
        if rank < 0 or not ranks:
            del hangs[key]
        elif hang.get("ranks"):
            hang["ranks"] = ranks


def _spinning(window: Window) -> list[str]:
    """Return the GPUs that are fully busy at little power: they wait inside a collective."""
    power, limit = window.series("gpu.power"), window.series("gpu.power_limit")
    found = []
    for place, util in window.series("gpu.util").items():
        if place in power and place in limit and float(np.median(util.value)) >= 95:
            share = float(np.median(power[place].value)) / max(float(limit[place].value[-1]), 1.0)
            if share < 0.4:
                found.append("/".join(place))
    return found


def _detail(text: str) -> dict[str, Any]:
    try:
        detail = json.loads(text or "{}")
    except ValueError:
        return {}
    return detail if isinstance(detail, dict) else {}
