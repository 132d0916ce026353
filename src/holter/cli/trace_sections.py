"""The details of a verdict as sections of text: evidence, operators, kernels, analyses of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from holter.analysis.verdict.evidence import counted
from holter.views.wording import milliseconds, percent, plain_event, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from holter.cli.output import Section
    from holter.views.document.types import Description, TraceDescription
    from holter.views.document.types.profiled import (
        DurationStatistics,
        ProfiledWindow,
        TimeDivision,
        TraceNumbers,
    )
    from holter.views.document.types.values import TableRow

_MOST = 10
_OF_HOST = "times are of the host; the peak of its CPU is not known"
_NO_SHAPES = (
    "no shapes of matrix products, convolutions or attention were recorded; `holter profile JOB --shapes` "
    "or `holter run --profile-steps 100:103:shapes` records them"
)
_LONGEST_NAME = 80
_PATH = (
    "shares of the chain of work that waits for each other, from begin to end; work beside the chain is "
    "hidden and does not count, so the shares differ from those of the verdict, which count all time"
)


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
            name = plain_event(one["name"])[:_LONGEST_NAME]
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


def trace_sections(trace: ProfiledWindow | TraceNumbers) -> Iterator[Section]:
    """Yield title and lines of each section of a description's `trace` or `window`; lines may be empty."""
    if path := _shares(trace["critical_path"] or {}):
        yield "Critical path", [*path, _PATH]
    yield "Kernels by precision", _shares(trace["precision"] or {})
    if "breakdowns" in trace:
        yield (
            "Same metrics as defined by HTA and TraceLens",
            [_breakdown(part) for part in trace["breakdowns"][: 3 * _MOST]],
        )
    more = trace.get("detail")
    if more is None:
        return
    if steps := more["steps"]:
        yield "Steps on the accelerator", [f"{counted(steps['count'], 'step')}: {_spread(steps)}"]
    yield "Critical path of the first step, as HTA defines it", _shares(more["hta_critical_path"] or {})
    yield "Steps by role, as the TensorBoard plug-in has it", _shares(more["roles"] or {})
    lists = cast("dict[str, list[TableRow]]", more)
    for name, (title, line) in _LISTS.items():
        rows = lists[name]
        notes = _of_roofline(rows, "step_start" in trace) if name == "roofline" else []
        yield title, notes + [line(row) for row in rows[:_MOST]]
    if launches := more["launches"]:
        yield (
            "From launch to run",
            [
                counted(launches["count"], "launch", "launches"),
                f"the call takes: {_spread(launches['call'])}",
                f"from its end until the run begins: {_spread(launches['delay'])}",
                f"the run takes: {_spread(launches['run'])}",
            ],
        )


def _module(row: TableRow) -> str:
    device = f", {_us(row['device_ns'] / 1e3)} on the accelerator" if row["device_ns"] else ""
    return f"{row['calls']:,} x, {_us(row['total_ns'] / 1e3)}{device}: {_name(row)}"


def _operator(row: TableRow) -> str:
    each = f"{_name(row)}: {row['calls']:,} x {_flop(row['flops'] / row['calls'])}"
    if row["tflops"] is None:
        return f"{each}, no time on the {'host' if row['side'] == 'host' else 'accelerator'}"
    speed = f"{_us(row[row['side'] + '_ns'] / 1e3)}, {_flop(1e12 * row['tflops'])}/s"
    peak = "" if row["peak_pct"] is None else f", {percent(row['peak_pct'])} of the peak"
    bound = f", bound by {row['bound']}" if row["bound"] else ""
    return f"{each}, {speed}{peak}{bound}"


def _of_roofline(rows: list[TableRow], recorded: bool) -> list[str]:
    if not rows:
        return [_NO_SHAPES] if recorded else []
    return [_OF_HOST] if rows[0]["side"] == "host" else []


def _flop(count: float) -> str:
    for prefix in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {prefix}FLOP"
        count /= 1000
    return f"{count:.3g} TFLOP"


def _hand_to_mouth(row: TableRow) -> str:
    where = f"rank {row['rank']}, device {row['device']}"
    asked = f"{percent(row['starved_pct'])} of the work was asked for only when all before had ended"
    return f"{where}: {asked}; {percent(row['short_pct'])} of it runs shorter than its launch takes"


def _copies(row: TableRow) -> str:
    speeds = f"mean {row['mean']:.3g} GB/s, median {row['median']:.3g}, most {row['most']:.3g}"
    return f"{row['definition']}: rank {row['rank']}, {row['kind']}: {speeds}, of {row['count']:,} moments"


def _collective(row: TableRow) -> str:
    what = (
        f"{row['collective'] or 'collective'} of {row['bytes']:,} bytes, {counted(row['group_size'], 'rank')}"
    )
    time = _us(row["time_ns"] / 1e3)
    return f"{what}: {row['operations']:,} x, {time}, {row['bus_gb_per_s']:.3g} GB/s on the bus"


def _annotation(row: TableRow) -> str:
    return (
        f"{row['count']:,} x, mean {_us(row['mean_ns'] / 1e3)}, most {_us(row['max_ns'] / 1e3)}: {_name(row)}"
    )


_LISTS: dict[str, tuple[str, Callable[[TableRow], str]]] = {
    "kernels_by_launches": (
        "Kernels by launches",
        lambda row: f"{row['launches']:,} x {_us(row['mean_ns'] / 1e3)}: {_name(row)}",
    ),
    "modules": ("Modules", _module),
    "roofline": ("Roofline", _operator),
    "queues": (
        "Queues of the streams",
        lambda row: (
            f"rank {row['rank']}, device {row['device']}, stream {row['stream']}: "
            f"longest {row['longest']}, mean {row['mean'] or 0:.3g}"
        ),
    ),
    "host_bound": ("Hand to mouth", _hand_to_mouth),
    "collectives": ("Collectives", _collective),
    "copies": ("Bandwidth of copies and fills", _copies),
    "gradients": (
        "Forward operators and their backward operators",
        lambda row: (
            f"{row['forward']}, {row['backward']}: {row['count']:,} x, "
            f"{_us(row['forward_us'])} and {_us(row['backward_us'])}"
        ),
    ),
    "annotations": ("Annotations", _annotation),
    "memory": ("Memory", lambda row: f"{row['name']} of rank {row['rank']}: peak {row['peak']:,.0f} bytes"),
}


def _breakdown(part: TimeDivision) -> str:
    where = f"rank {part['rank']}" + ("" if part["device"] is None else f", device {part['device']}")
    span = part["span_us"]
    if span <= 0:
        return f"{part['definition']}: {where}: its events have no duration"
    shares = ", ".join(
        f"{key.removesuffix('_us')} {percent(100 * part[key] / span)}"
        for key in ("idle_us", "compute_us", "communication_us", "memory_us")
    )
    return f"{part['definition']}: {where}: {_us(span)}, {shares}"


def _shares(shares: Mapping[str, float]) -> list[str]:
    return [f"{words(name)} {percent(share)}" for name, share in shares.items() if share > 0]


def _name(row: TableRow) -> str:
    return plain_event(str(row["name"]))[:_LONGEST_NAME]


def _us(value: float) -> str:
    return milliseconds(value / 1000) if value >= 1000 else f"{value:.3g} us"


def _spread(found: DurationStatistics) -> str:
    median, p95 = _us(found["p50_us"]), _us(found["p95_us"])
    return f"median {median}, p95 {p95}, p99 {_us(found['p99_us'])}, most {_us(found['max_us'])}"
