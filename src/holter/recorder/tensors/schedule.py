"""Schedules of collections: an interval in steps, and single steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.schema.modes import MODES as MODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NEVER = 1 << 62


@dataclass(frozen=True)
class Schedule:
    """Steps of one mode: those listed, and every `interval` from `start` up to, not including, `end`.

    The rule of the SageMaker Debugger: multiples of the interval count from 0, not from `start`; listed steps
    ignore `start` and `end`.
    """

    interval: int = 500
    start: int = 0
    end: int | None = None
    steps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raise `ValueError` for an interval below 1 and for steps below 0."""
        if self.interval < 1:
            raise ValueError(
                f"interval {self.interval} is not possible; it is the steps from one save to the next, from 1"
            )
        for name, value in (
            ("start", self.start),
            ("end", self.end or 0),
            ("steps", min(self.steps, default=0)),
        ):
            if value < 0:
                raise ValueError(f"{name} {value} is no step; steps count from 0")

    def due(self, step: int, stride: int = 1) -> bool:
        """Whether step `step` is saved, or any of the `stride` steps that run in one call from it on."""
        if stride > 1:
            return self.next(step) < step + stride
        inside = self.start <= step and (self.end is None or step < self.end)
        return (inside and step % self.interval == 0) or step in self.steps

    def next(self, step: int) -> int:
        """Return the first step from `step` on that is saved; `NEVER` without one."""
        first = max(step, self.start)
        first += -first % self.interval
        if self.end is not None and first >= self.end:
            first = NEVER
        return min([first, *(one for one in self.steps if one >= step)])

    def to_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {"interval": self.interval, "start": self.start, "end": self.end, "steps": list(self.steps)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Schedule:
        """Read what `to_json` returned; what is absent takes its default."""
        end = given.get("end")
        return cls(
            int(given.get("interval", 500)),
            int(given.get("start", 0)),
            None if end is None else int(end),
            tuple(sorted({int(step) for step in given.get("steps", ())})),
        )


def next_due(schedules: Iterable[Schedule], step: int) -> int:
    """Return the first step from `step` on at which any of the schedules is due."""
    return min((schedule.next(step) for schedule in schedules), default=NEVER)
