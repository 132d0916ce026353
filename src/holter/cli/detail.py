"""What operators and kernels took, as sections of text: title and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.views.wording import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

Section = tuple[str, list[Any]]

_MOST = 10
_LONGEST_NAME = 80


def operators(d: Mapping[str, Any]) -> Section:
    """Name the operators and kernels of a description that take most."""
    lines = []
    for side, what in (("cpu", "own time on the host"), ("gpu", "time on the accelerator")):
        listed = d["operators"].get(side) or []
        if listed:
            lines.append(f"{what}:")
        for one in listed[:_MOST]:
            calls = f"{one['count']:,} call{'s' if one['count'] != 1 else ''}"
            name = one["name"][:_LONGEST_NAME]
            lines.append(f"  {percent(one['pct'])} {name}: {milliseconds(one['total_ms'])}, {calls}")
    seen = d.get("window")
    if not seen:
        return "Operators", lines
    first, last = seen["step_start"], seen["step_end"]
    return f"Operators of step{f' {first}' if first == last else f's {first} to {last}'}", lines
