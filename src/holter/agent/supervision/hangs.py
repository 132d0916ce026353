"""Detects a hanging training with a limit that follows from the job's own steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from holter.schema.phases import ENDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.documents import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class HangLimits:
    """How long a rank may be silent before it counts as hanging."""

    factor: float = 10.0
    """Silence allowed, as a multiple of the 99th percentile of the newest 200 steps."""
    min_s: float = 120.0
    """Silence that is always allowed, in seconds."""
    max_s: float = 1800.0
    """Silence that is never allowed, in seconds; also the limit before the first step."""
    extend: float = 3.0
    """While a checkpoint, an evaluation or a compiler runs: so many times its median is allowed on top."""

    def __post_init__(self) -> None:
        if not 0 < self.min_s <= self.max_s:
            raise ValueError(f"hang limits: 0 < min_s <= max_s, not min_s={self.min_s}, max_s={self.max_s}")
        if self.factor < 1 or self.extend < 0:
            raise ValueError(f"hang limits: factor >= 1 and extend >= 0, not {self.factor} and {self.extend}")

    def limit_s(
        self, durations: Sequence[int], open_phase: str | None = None, median_s: float | None = None
    ) -> float:
        """Return the silence allowed, in seconds, after steps of these durations (ns).

        `median_s` is the median duration of earlier spans of the open phase.
        """
        if not durations:
            return self.max_s
        ordered = sorted(durations)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] / 1e9
        limit = min(max(self.factor * p99, self.min_s), self.max_s)
        if open_phase in SLOW:
            # One that has never ended before may take as long as anything may.
            limit = self.max_s if median_s is None else min(limit + self.extend * median_s, self.max_s)
        return limit


SLOW = ("checkpoint", "eval", "compile")
"""Phases that can take much longer than a step."""


class Silence(NamedTuple):
    """A rank that has been silent for too long."""

    rank: int
    silent_s: float
    limit_s: float
    phase: str | None
    step: int


def diagnosis(
    silences: Sequence[Silence], *, cpu_pct: float | None, states: Sequence[str], trainers: int
) -> tuple[str, str]:
    """Return the probable kind of a hang and the reason, from facts that are visible outside the processes.

    `cpu_pct` is the CPU that each process uses, in percent of a core; `states` are those of `/proc/PID/stat`.
    """
    phases = {silence.phase for silence in silences}
    ranks = ", ".join(str(silence.rank) for silence in silences)
    who = f"rank {ranks}" if len(silences) == 1 else f"ranks {ranks}"
    busy = "" if cpu_pct is None else f", CPU {'idle' if cpu_pct < 5 else f'at {cpu_pct:.0f}% of a core'}"
    where = " or ".join(sorted(phase or "no known phase" for phase in phases))
    text = f"{who} in {where}{busy}"
    if any(state == "D" for state in states):
        return "storage", f"{text}; waits in the kernel for input or output that does not come"
    if phases == {ENDED}:
        return "exit", f"{who}{busy}; the recording has ended, the process has not"
    if phases == {"data_loading"}:
        return "data_starved", f"{text}; no batch comes from the data loader"
    if "communication" in phases or ("backward" in phases and trainers > 1):
        fewer = f"; the other {trainers - len(silences)} still move" if len(silences) < trainers else ""
        return "collective_hang", f"{text}; waits for other ranks{fewer}"
    if cpu_pct is not None and cpu_pct < 5:
        return "deadlock", f"{text}; nothing runs, something waits for what never comes"
    return "unknown", f"{text}; busy, but no step ends" if cpu_pct is not None else text


def line(detail: Document) -> str:
    """Return an event `hang` as one line for the user."""
    step = "" if detail.get("step") is None or detail["step"] < 0 else f" in step {detail['step']}"
    if detail["recovered"]:
        return f"rank {detail['rank']} moves again, after {detail['silent_s']:.0f} s without progress{step}"
    return f"no progress for {detail['silent_s']:.0f} s{step}: {detail['text']}"
