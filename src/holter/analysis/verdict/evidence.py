"""One piece of evidence: a sentence with the number behind it, and how numbers are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.analysis.verdict.facts import Facts


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured, and what it was compared with."""

    text: str
    metric: str
    """A metric, a part of the step, or another number's name."""
    value: float
    threshold: float | None
    """None: nothing to compare with."""
    where: str | None
    """Node, rank, or the callable as `name (file:line)`."""
    window: dict[str, int] | None
    """step_start, step_end, time_start, time_end (ns)."""

    def to_json(self) -> dict[str, Any]:
        """Return it with the keys of `describe --json`."""
        keys = ("text", "metric", "value", "threshold", "where", "window")
        return {key: getattr(self, key) for key in keys}


def seen(
    facts: Facts,
    text: str,
    metric: str,
    value: float,
    threshold: float | None = None,
    where: str | None = None,
) -> Evidence:
    """Make evidence from the steady steps of a job."""
    return Evidence(text, metric, value, threshold, where, facts.window)


def pct(value: float) -> str:
    """Write a share for people: `60 %`, `0.4 %`, `under 0.01 %`."""
    if 0 < value < 0.01:
        return "under 0.01 %"
    return f"{value:.0f} %" if value >= 1 or value == 0 else f"{value:.1g} %"


def us(value: float) -> str:
    """Write a time given in microseconds for people: `9.5 us`, `2.14 ms`."""
    return ms(value / 1000) if value >= 1000 else f"{value:.3g} us"


def ms(value: float) -> str:
    """Write a time for people: `600 ms`, `2.14 ms`, `12.5 s`."""
    if value >= 10_000:
        return f"{value / 1000:.3g} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def counted(count: float, noun: str, plural: str = "") -> str:
    """Write how many there are: `1 step`, `2,000 steps`; `plural` for a noun that takes more than an s."""
    number = f"{count:,g}" if isinstance(count, float) else f"{count:,}"
    return f"{number} {noun if count == 1 else plural or noun + 's'}"


def part_name(part: str) -> str:
    """Write a part of the step as a person would say it."""
    return "the loop's own code" if part == "other" else part.replace("_", " ")
