"""Print the details of a verdict: evidence, operators, kernels, and the sections of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.analysis.verdict.evidence import counted
from holter.cli.output import clean, write
from holter.cli.trace_sections import trace_sections
from holter.views.wording import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

Section = tuple[str, list[Any]]

_MOST = 10
_LONGEST_NAME = 80


def operators(d: Mapping[str, Any]) -> Section:
    """Return the section of the operators and kernels with the most time."""
    lines = []
    for side, what in (("cpu", "self time on the host"), ("gpu", "time on the accelerator")):
        listed = d["operators"].get(side) or []
        if listed:
            lines.append(f"{what}:")
        for one in listed[:_MOST]:
            calls = counted(one["count"], "call")
            name = one["name"][:_LONGEST_NAME]
            lines.append(f"  {percent(one['pct'])}, {milliseconds(one['total_ms'])}, {calls}: {name}")
    seen = d.get("window")
    if not seen:
        return "Operators", lines
    first, last = seen["step_start"], seen["step_end"]
    return f"Operators of step{f' {first}' if first == last else f's {first} to {last}'}", lines


def show(description: Mapping[str, Any], out: Console) -> None:
    """Print the details, section by section; a section without data is left out."""
    from rich.text import Text

    for title, lines in _sections(description):
        if lines:
            write(out, Text(f"\n{title}", style="bold"))
            for line in lines:
                for piece in Text(clean(line).strip()).wrap(out, out.width - 4):
                    write(out, Text.assemble("  " if line[:1] != " " else "    ", piece))


def _sections(d: Mapping[str, Any]) -> Iterator[Section]:
    from holter.views.document.profiled import HOW

    yield "Evidence", [fact["text"] for fact in d["verdict"]["evidence"]]
    yield operators(d) if d["operators"] else ("Operators", [f"No step was profiled. {HOW}"])
    if seen := d.get("trace") or d.get("window"):
        yield from trace_sections(seen)
