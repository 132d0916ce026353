"""Finds ranks that hang, are lost, or end no step for far longer than their steps usually take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holter.rules import Issue, Issues, Lookback, Rule, Table, Window
from holter.schema.table import Detail, Row, detail_of

READS = (
    "steps",
    "events/hang",
    "events/lost",
    "events/exit",
    "samples/gpu.util",
    "samples/gpu.power",
    "samples/gpu.power_limit",
)
"""The tables that `Stalls` needs."""
LOOKBACK = Lookback(steps=200, seconds=60.0)
"""The steps that show how long a step takes, and what the GPUs do now."""
_SLOW_S = 10.0
_SLOW_SHARE = 0.1
"""A step that lasts is in the rule's details after this time, once it takes this share of the loop's time."""
_FEW_STEPS = 20
"""A step that has ended is compared with at least so many others."""
_MOST_ENDED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Judges silence on behalf of a rule. A rank may be silent for clamp(factor x p99, min_s, max_s)."""

    rule: Rule
    """The rule that makes the issues."""
    factor: float = 10.0
    min_s: float = 120.0
    max_s: float = 1800.0

    def judge(self, window: Window) -> Issues:
        """Judge what the agent saw of the processes, then the silence of ranks that no agent watches."""
        state = window.state
        hangs: dict[str, Detail] = state.setdefault("hangs", {})
        gone: list[int] = state.setdefault("gone", [])
        for row in window.new("events").to_rows():
            detail = detail_of(row["detail"])
            if row["kind"] == "lost":
                gone.append(row["rank"])
                window.judged(1)
                yield self._lost(row, detail)
            elif row["kind"] == "exit" and detail.get("role", "trainer") == "trainer":
                gone.append(row["rank"])
            elif row["kind"] == "hang" and detail.get("recovered"):
                _recover(hangs, {**row, **detail}["rank"])
            elif row["kind"] == "hang":
                about = {"at": row["time"], "reported": "", "rank": row["rank"]}
                hangs[f"{row['rank']} {row['time']}"] = {**detail, **about}
        for hang in hangs.values():
            yield from self._hang(window, hang)
        yield from self._silent(window, gone)
        if not window.points and window.lack is None:
            window.insufficient("no_input", "no step has ended, and no agent watched a process")

    def _lost(self, row: Row, detail: Detail) -> Issue:
        step = detail.get("step")
        return self.rule.issue(
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

    def _hang(self, window: Window, hang: Detail) -> Issues:
        """Report a hang when it is first seen, and again when it becomes critical."""
        window.judged(1)
        limit = float(hang.get("limit_s") or self.min_s)
        silent = float(hang.get("silent_s") or limit) + (window.end - hang["at"]) / 1e9
        severity = "critical" if silent > 3 * limit else "warning"
        if hang["reported"] in (severity, "critical"):
            return
        hang["reported"] = severity
        ranks = hang.get("ranks") or ([hang["rank"]] if hang["rank"] >= 0 else [])
        named = hang.get("odd_ranks") or ranks
        who = f"rank {ranks[0]} hangs" if len(ranks) == 1 else f"{len(ranks) or 'all'} ranks hang"
        where = f" in {hang['phase']}" if hang.get("phase") else ""
        at = f" at step {hang['step']}" if hang.get("step") is not None else ""
        yield self.rule.issue(
            f"{who}{where}{at}: " + (hang.get("text") or f"no progress for {silent:.0f} s"),
            code="hang",
            severity=severity,
            rank=named[0] if len(named) == 1 else None,
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
                "odd_ranks": hang.get("odd_ranks") or [],
                "groups": hang.get("groups") or [],
                "frame": hang.get("own_frame") or hang.get("frame"),
            },
        )

    def _silent(self, window: Window, gone: list[int]) -> Issues:
        steps, reported = window.steps, window.state.setdefault("silent", {})
        lasting: list[dict[str, float]] = []
        ended: list[dict[str, float]] = window.state.setdefault("ended", [])
        window.details = {"lasting_steps": lasting, "ended_stalls": ended}
        for rank in np.unique(steps["rank"]).tolist():
            mine = steps.where(steps["rank"] == rank)
            last = max(int((mine["time"] + mine["duration"]).max()), window.job.active.get(rank, 0))
            silent = (window.end - last) / 1e9
            window.judged(mine.rows)
            ended += self._ended(window, mine)
            del ended[:-_MOST_ENDED]
            if rank not in gone and (slow := self._slow(window, mine, silent)):
                lasting.append(slow)
            if silent <= min(self.min_s, self.max_s):
                reported.pop(str(rank), None)
                continue
            limit = min(
                max(self.factor * float(np.percentile(mine["duration"], 99)) / 1e9, self.min_s), self.max_s
            )
            # An agent that watches the process reports hangs: it knows of open work, such as a checkpoint.
            limit = self.max_s if window.job.trainers else limit
            severity = "critical" if silent > 3 * limit else "warning"
            if silent <= limit or rank in gone:
                reported.pop(str(rank), None)
            elif reported.get(str(rank)) != severity:
                reported[str(rank)] = severity
                step = int(mine["step"].max())
                yield self.rule.issue(
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

    def _slow(self, window: Window, steps: Table, silent: float) -> dict[str, float] | None:
        """Return a step that already takes a large share of the loop's time; it is no issue.

        The loop may be over: what follows it, such as a test, ends no step.
        """
        usual = self.factor * float(np.percentile(steps["duration"], 99)) / 1e9
        loop_s = _loop_s(window)
        if window.job.ended or silent <= max(_SLOW_S, usual, _SLOW_SHARE * loop_s):
            return None
        return {
            "rank": int(steps["rank"][0]),
            "after_step": int(steps["step"].max()),
            "silent_s": silent,
            "typical_ms": float(np.median(steps["duration"])) / 1e6,
            "loop_pct": 100 * silent / loop_s,
        }

    def _ended(self, window: Window, steps: Table) -> list[dict[str, float]]:
        """Return the new steps that stalled the training and have ended; they are no issues.

        The training goes on, so nothing that follows this rule, such as a stop, may happen. StepOutlier
        reports what they cost and where.
        """
        new = window.new("steps")
        new = new.where(new["rank"] == steps["rank"][0])
        known = new["eval"] + new["checkpoint"] + new["compile"]
        loop_s = _loop_s(window)
        found = []
        for row in np.flatnonzero(new["duration"] - known > _SLOW_S * 1e9).tolist():
            others = steps["duration"][steps["step"] != new["step"][row]] / 1e9
            took = float(new["duration"][row] - known[row]) / 1e9
            if len(others) < _FEW_STEPS:
                continue
            if took > max(self.factor * float(np.percentile(others, 99)), _SLOW_SHARE * loop_s):
                found.append(
                    {
                        "rank": int(steps["rank"][0]),
                        "step": int(new["step"][row]),
                        "took_s": took,
                        "typical_ms": 1e3 * float(np.median(others)),
                        "loop_pct": 100 * took / loop_s,
                    }
                )
        return found


def _loop_s(window: Window) -> float:
    """Return how long the loop has run so far."""
    return (window.end - (window.job.first_step or window.job.start)) / 1e9


def _recover(hangs: dict[str, Detail], rank: int) -> None:
    """Remove a rank from the hangs; a hang ends when its last rank recovers."""
    for key, hang in list(hangs.items()):
        ranks = [one for one in hang.get("ranks") or [hang["rank"]] if one not in (rank, -1)]
        if rank < 0 or not ranks:
            del hangs[key]
        elif hang.get("ranks"):
            hang["ranks"] = ranks


def _spinning(window: Window) -> list[str]:
    """Return the GPUs that are fully busy at low power: they wait inside a collective."""
    power, limit = window.series("gpu.power"), window.series("gpu.power_limit")
    found = []
    for place, util in window.series("gpu.util").items():
        if place in power and place in limit and float(np.median(util.value)) >= 95:
            share = float(np.median(power[place].value)) / max(float(limit[place].value[-1]), 1.0)
            if share < 0.4:
                found.append("/".join(place))
    return found
