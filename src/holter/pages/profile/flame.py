"""The view of Python code: flame graphs, functions, callers and callees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.drawing.flame import flame
from holter.drawing.markup import tag
from holter.drawing.pieces import prose
from holter.pages.forms import choice, entry, form, link, number
from holter.pages.islands import island
from holter.pages.tables import Number, share_cell, sortable, time_cell
from holter.views.document.python_profile import python_profile, segments
from holter.views.flames import FlameSelection, flames
from holter.views.wording import milliseconds, natural, plain_function, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.views.document.python_profile import PythonProfile
    from holter.views.document.types.values import TableRow
    from holter.views.flames import FlameDocument
    from holter.views.reading import Reading

TITLE = "Flame"
SHOWN = 30
_FUNCTIONS, _SEGMENTS, _CALLS = 100, 100, 50
_EMPTY = (
    "No Python code was profiled. `holter profile JOB --count 3 --python pyinstrument` samples the next "
    "steps of a running job, `--python cprofile` times every call; `holter run --profile-steps "
    "60:63:cprofile` does so from the start. A slow data loader is sampled automatically."
)
_SELECTION = ("mode", "phase", "first", "last")
_TABLES = ("python_functions", "python_stacks", "operators")
_SOURCES = {
    "pyinstrument": "samples of a profiling window",
    "loader": "continuous samples of the code that builds batches",
    "host": "operators and functions of a window or trace",
}
_TIMERS = {
    "total_time": "wall time",
    "cpu_time": "CPU time",
    "off_cpu_time": "waiting time (off CPU)",
}


def present(reading: Reading) -> bool:
    """Whether Python code or host events were recorded."""
    loading = reading.description["dataloading"]  # a slow loader is sampled without a window
    sampled = bool(loading and loading["callables"])
    return sampled or any(reading.trial.newest(name) is not None for name in _TABLES)


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Iterator[Markup]:
    """Draw the view: what was profiled, a flame graph, tables of functions, and its segments."""
    chosen = asked_part(asked)
    parts = [one for one in segments(reading.trial) if chosen.rank in (None, one["rank"])]
    found = list(flames(reading.trial, chosen))
    timed = _timed(reading, chosen)
    if not (parts or found or timed):
        of_rank = f"No Python code of rank {chosen.rank} was profiled."
        yield tag("p", prose(_EMPTY) if chosen.rank is None else of_rank, class_="empty")
        return
    yield _filter(rendering, reading, asked, parts)
    if not (found or timed):
        yield tag("p", "No profile matches this selection.", class_="empty")
    if found:
        yield from _flame(rendering, asked, found)
    for one in timed:
        yield from _timer(rendering, asked, one)
    if parts:
        yield tag("h2", "What was profiled") + _segments(rendering, parts)


def asked_part(asked: Mapping[str, str]) -> FlameSelection:
    """Return the part of a job that an address asks for; raises `ValueError`."""
    return FlameSelection(
        first_step=number(asked, "first"),
        last_step=number(asked, "last"),
        rank=number(asked, "rank"),
        mode=asked.get("mode") or None,
        phase=asked.get("phase") or None,
    )


def _timed(reading: Reading, chosen: FlameSelection) -> list[PythonProfile]:
    steps = None
    if (chosen.first_step, chosen.last_step) != (None, None):
        last = 2**62 if chosen.last_step is None else chosen.last_step + 1
        steps = (chosen.first_step or 0, last)
    found = python_profile(reading.trial, steps=steps, rank=chosen.rank, mode=chosen.mode, phase=chosen.phase)
    return [one for one in found if one["profiler"] == "cprofile"]


def _filter(
    rendering: Rendering, reading: Reading, asked: Mapping[str, str], parts: Sequence[TableRow]
) -> Markup:
    def options(name: str) -> list[tuple[str, str]]:
        found = {str(part[name]) for part in parts} | ({asked[name]} if asked.get(name) else set())
        return [("", "all"), *((value, words(value)) for value in sorted(found, key=natural))]

    labels = {"mode": "mode", "phase": "part of a step"}
    offered = {name: options(name) for name in labels}
    # A choice among one value is left out.
    choices = [choice(asked, name, labels[name], all_) for name, all_ in offered.items() if len(all_) > 2]
    first = entry(asked, "first", "steps from", kind="number", min=0)
    last = entry(asked, "last", "to", kind="number", min=0)
    fields = (*choices, first, last)
    return form(rendering, asked, "which part of the job", *fields, keep=("view", "source", "function"))


def _flame(rendering: Rendering, asked: Mapping[str, str], found: list[FlameDocument]) -> Iterator[Markup]:
    wanted = asked.get("source", "")
    names = [f"{one['source']}: {one['name']}" for one in found]
    at = names.index(wanted) if wanted in names else 0
    one = found[at]
    yield tag("h2", "Flame graph")
    if len(found) > 1:
        listed = [
            (name, f"{one['name']} ({_SOURCES[one['source']]})")
            for name, one in zip(names, found, strict=True)
        ]
        picked = choice(asked, "source", "of", listed, default=names[at])
        yield form(rendering, asked, "choice of the flame graph", picked, keep=("view", *_SELECTION))
    title = f"Flame graph of {one['name']}"
    samples = f", {counted(one['samples'], 'sample')}" if one["samples"] else ""
    yield tag(
        "p",
        f"{one['name']}: {_SOURCES[one['source']]}{samples}, {milliseconds(one['flame']['value'] / 1e6)}",
        " in total. Each bar is a function, and its width is its time. Callers are above callees.",
        class_="dim",
    )
    data = {name: asked[name] for name in _SELECTION if asked.get(name)}
    yield island(rendering, "flame", lambda: flame(one["flame"], title), key=names[at], title=title, **data)
    whole = one["flame"]["value"] or 1
    rows: Iterator[list[str]] = (
        [
            _named(row["name"]),
            time_cell(row["self_ns"]),
            share_cell(100 * row["self_ns"] / whole),
            time_cell(row["total_ns"]),
            share_cell(100 * row["total_ns"] / whole),
        ]
        for row in one["functions"][:_FUNCTIONS]
    )
    heads = ("function", "self time", "self share", "total time", "total share")
    yield sortable(rendering, "functions", f"Functions of {one['name']}{_first(one)}", heads, rows)


def _named(name: str) -> Markup:
    """Return a cell with a function's name; the whole path is in a tooltip."""
    plain = plain_function(name)
    return tag("span", plain, title=None if plain == name else name)


def _timer(rendering: Rendering, asked: Mapping[str, str], one: PythonProfile) -> Iterator[Markup]:
    """Draw the functions of one timer of cProfile; of a chosen function also its callers and callees."""
    timer = one["timer"]
    title = _TIMERS.get(str(timer), str(timer))
    yield tag("h2", "All calls: ", title)
    name, calls = asked.get("function", ""), one.get("calls", [])
    if any(name in (call["name"], call["caller"]) for call in calls):
        yield tag("h3", name)
        for what, key, other in (("Callers", "name", "caller"), ("Callees", "caller", "name")):
            mine = [call for call in calls if call[key] == name][:_CALLS]
            yield sortable(
                rendering,
                f"{timer} {other}",
                f"{what} of {name}",
                (what.lower(), "calls", "total time", "self time"),
                [
                    [
                        link(rendering, asked, plain_function(call[other]), function=call[other]),
                        Number(call["calls"]),
                        time_cell(call["total_ns"]),
                        time_cell(call["self_ns"]),
                    ]
                    for call in mine
                ],
            )
    whole = sum(function["self_ns"] for function in one["functions"]) or 1
    rows: Iterator[list[str]] = (
        [
            link(rendering, asked, plain_function(row["name"]), function=row["name"]),
            time_cell(row["total_ns"]),
            time_cell(row["self_ns"]),
            share_cell(100 * row["self_ns"] / whole),
            Number(row["calls"]),
            Number(row["primitive_calls"]),
        ]
        for row in one["functions"][:_FUNCTIONS]
    )
    heads = ("function", "total time", "self time", "self share", "calls", "primitive calls")
    yield sortable(rendering, str(timer), f"Functions by {title}{_first(one)}", heads, rows)


def _first(one: FlameDocument | PythonProfile) -> str:
    """Say that more functions are known than are listed."""
    count = len(one["functions"]) + one["left_out"]
    return f", the first {_FUNCTIONS} of {count:,} by self time" if count > _FUNCTIONS else ""


def _segments(rendering: Rendering, parts: Sequence[TableRow]) -> Markup:
    rows: Iterator[list[str]] = (
        [
            Number(part["step"]) if part["step"] >= 0 else Number(-1, "before the first"),
            words(part["phase"]),
            part["mode"],
            Number(part["rank"]),
            part["profiler"],
            words(part["timer"]),
            time_cell(part["duration"]),
            Number(part["functions"]),
        ]
        for part in parts[:_SEGMENTS]
    )
    heads = ("step", "part", "mode", "rank", "profiler", "timer", "duration", "functions or stacks")
    left = f", the first {_SEGMENTS} of {len(parts):,}" if len(parts) > _SEGMENTS else ""
    return sortable(rendering, "segments", f"Parts of steps that were profiled{left}", heads, rows)
