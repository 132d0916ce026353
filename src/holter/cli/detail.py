"""Print the details of a verdict: evidence, operators, kernels, and the sections of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli.trace_sections import trace_sections
from holter.views.wording import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.cli.output import Section
    from holter.views.document.types import Description, TraceDescription

_MOST = 10
_LONGEST_NAME = 80


def operators(d: Description | TraceDescription) -> Section:
    """Return the section of the operators and kernels with the most time."""
    lines = []
    tables = d["operators"]
    sides = (
        {"self time on the host": tables["cpu"], "time on the accelerator": tables["gpu"]} if tables else {}
    )
    for what, listed in sides.items():
        if listed:
            lines.append(f"{what}:")
        for one in listed[:_MOST]:
            calls = counted(one["count"], "call")
            name = one["name"][:_LONGEST_NAME]
            lines.append(f"  {percent(one['pct'])}, {milliseconds(one['total_ms'])}, {calls}: {name}")
    if "window" not in d or not d["window"]:
        return "Operators", lines
    first, last = d["window"]["step_start"], d["window"]["step_end"]
    return f"Operators of step{f' {first}' if first == last else f's {first} to {last}'}", lines


def sections(d: Description | TraceDescription) -> Iterator[Section]:
    """Yield the sections of the details; those without data have no lines."""
    from holter.views.document.profiled import HOW

    yield "Evidence", [fact["text"] for fact in d["verdict"]["evidence"]]
    yield operators(d) if d["operators"] else ("Operators", [f"No step was profiled. {HOW}"])
    seen = d["trace"] if "trace" in d else d["window"]
    if seen:
        yield from trace_sections(seen)
