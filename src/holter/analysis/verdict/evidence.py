"""Evidence of a verdict: a sentence with the number behind it. Also how numbers and names are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PYTHON = re.compile(r"^(?:.*/)?([^/]+\.py)\((\d+)\): (.+)$")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A measured number, and the limit that it is compared with."""

    text: str
    metric: str
    """Name of a metric, of a part of the step, or of another number."""
    value: float
    threshold: float | None = None
    """None: the number is not compared with a limit."""
    where: str | None = None
    """Node, rank, or the callable as `name (file:line)`."""
    window: dict[str, int] | None = None
    """step_start, step_end, time_start, time_end (ns)."""


def pct(value: float) -> str:
    """Write a share for people: `60 %`, `0.4 %`, `under 0.01 %`."""
    if 0 < value < 0.01:
        return "under 0.01 %"
    return f"{value:.0f} %" if value >= 1 or value == 0 else f"{value:.1g} %"


def us(value: float) -> str:
    """Write a time given in microseconds for people: `9.5 us`, `2.14 ms`."""
    return ms(value / 1000) if value >= 1000 else f"{value:.3g} us"


def ms(value: float) -> str:
    """Write a time given in milliseconds for people: `600 ms`, `2.14 ms`, `12.5 s`."""
    if value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def took(seconds: float) -> str:
    """Write a time given in seconds for people: `600 ms`, `2.14 s`, `125 s`."""
    return ms(1e3 * seconds) if seconds < 1 else f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"


def counted(count: float, noun: str, plural: str = "") -> str:
    """Write a number with its noun: `1 step`, `2,000 steps`. `plural` is for irregular nouns."""
    number = f"{count:,g}" if isinstance(count, float) else f"{count:,}"
    return f"{number} {noun if count == 1 else plural or noun + 's'}"


def steps_text(first: int, last: int) -> str:
    """Name steps for people: `step 7`, `steps 7 to 9`."""
    return f"step {first}" if first == last else f"steps {first} to {last}"


def function_name(function: str) -> str:
    """Write the name of a function; code of no function is top-level code."""
    return "top-level code" if function == "<module>" else function


def function_at(function: str, file: str, line: int) -> str:
    """Write a function and its place: `evaluate (train.py:12)`."""
    return f"{function_name(function)} ({file}:{line})"


def enumerated(texts: Sequence[str]) -> str:
    """Write texts as a list: `a`, `a and b`, `a, b and c`."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def part_name(part: str) -> str:
    """Write the name of a part of the step for people."""
    return "the loop's own code" if part == "other" else part.replace("_", " ")


def short_name(name: str) -> str:
    """Write an event of the host for people: `normalize (image_transforms.py:390)`, `aten::copy_`."""
    if not name:
        return "code that the trace does not name"
    found = _PYTHON.match(name)
    if found:
        name = f"{found[3]} ({found[1]}:{found[2]})"
    name = re.sub(r"^<built-in (function|method) (\S+?)( of .*)?>$", r"\2", name)
    return name if len(name) <= 60 else f"{name[:59]}…"


def capitalized(text: str) -> str:
    """Write a text with a capital first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def sentence(text: str) -> str:
    """Make a sentence of a text: with a capital letter and a full stop."""
    return f"{capitalized(text)}."
