"""The page about kernels, copies and operators, from profiling windows and imported traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.analysis.device.kernel_statistics import kernel_table, memory_table, precision
from holter.analysis.host.operator_tree import operator_table
from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.job._forms import choice, entry, form, lines, link, number, picture, pictures
from holter.pages.tables import Number, share_cell, sortable, time_cell
from holter.views.document.profiled import HOW
from holter.views.figures.device._shares import MOST_SECTORS, SECTORS, profiled
from holter.views.wording import plain_kernel, size, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.pages.islands import Rendering
    from holter.schema.table import Table
    from holter.store.documents import Document
    from holter.views.reading import Reading

TITLE = "Profiler"
SHOWN = 40
_KERNELS, _OPERATORS, _NAMES = 200, 100, 500
_PLACE = ("rank", "device")
_WHERE = {"host": "on the host", "gpu": "on GPUs, of what it launched"}


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page: thirteen panels, tables of kernels, copies and operators."""
    seen = reading.profiled
    rank, device = number(asked, "rank"), number(asked, "device")
    tables = profiled(reading, rank if seen.ranks else None, device if seen.devices else None)
    parts = [tag("h1", TITLE), _said(reading, tables)]
    if seen.ranks:
        parts.append(_filter(rendering, reading, asked))
    parts += [tag("h2", "Busy or idle"), pictures(rendering, reading, asked, *_busy(reading))]
    if seen.ran:
        parts += _of_devices(rendering, reading, asked, tables)
    parts += [tag("h2", "Steps and named ranges"), *_ranges(rendering, reading, asked)]
    if tables["operators"].rows:
        parts += [tag("h2", "Operators and functions on the host"), _operators(rendering, tables)]
    if seen.windows:
        parts += [tag("h2", "Profiling windows"), _windows_table(rendering, reading)]
    return html(*parts)


def _busy(reading: Reading) -> list[str]:
    """Return the charts of utilization; without readings only one chart, which says that they are missing."""
    read = {str(row["metric"]) for row in reading.description["utilization"]}
    gpu, cpu = reading.profiled.ran or "gpu.util" in read, "cpu.util" in read
    return ["gpu_active", *["gpu_over_time"] * gpu, "cpu_active", *["cpu_over_time"] * cpu]


def _of_devices(
    rendering: Rendering, reading: Reading, asked: Mapping[str, str], tables: Mapping[str, Table]
) -> list[Markup]:
    memory = (
        sortable(rendering,
            "memory", "Copies and fills of memory",
            ("kind", "memory of the host", "operations", "time", "bytes", "of the time", "GB/s"),
            _memory(tables),
        )
        if tables["memory_operations"].rows
        else Markup()
    )  # fmt: skip
    return [
        tag("h2", "Kernels"),
        pictures(rendering,
            reading, asked, "kernel_time", "kernel_time_top", "kernel_launches", "kernel_launches_top",
            "kernel_precision", "launch_delays",
        ),
        sortable(rendering,
            "kernels", f"Kernels, the {_KERNELS} that take longest",
            ("kernel", "kind", "precision", "launches", "total", "mean", "shortest", "longest", "share"),
            _kernels(tables),
        ),
        tag("h2", "Activity and memory"),
        pictures(
            rendering, reading, asked, "device_activity", "memory_operations", "idle_reasons", "device_memory"
        ),
        memory,
    ]  # fmt: skip


def _said(reading: Reading, tables: Mapping[str, Table]) -> Markup:
    """Summarize what was recorded; without kernels, say how to record them."""
    seen = reading.profiled
    told = [tag("p", text) for text in _windows(seen.windows)]
    if not seen.ran:
        where = "no GPU work was recorded" if seen.ranks else "no profiling window was recorded"
        told.append(tag("p", "No kernels: ", where, ". ", prose(HOW), class_="empty"))
        return html(*told)
    counts = [
        counted(tables["kernels"].rows, "kernel"),
        counted(tables["memory_operations"].rows, "copy or fill", "copies and fills"),
        counted(tables["launches"].rows, "launch", "launches"),
        counted(tables["operators"].rows, "host event"),
    ]
    source = "an imported trace" if "imported" in reading.trial.manifest else "profiling windows"
    text = f"From {source}: {', '.join(counts)}, on {counted(len(seen.places), 'GPU')}."
    return html(tag("p", text, class_="dim"), *told)


def _windows(windows: list[Document]) -> Iterator[str]:
    """Yield why windows recorded nothing, each reason once."""
    told = {}
    for one in windows:
        for key in ("refused", "missing"):
            if one.get(key):
                profiler = words(str(one.get("profiler", "the profiler")))
                told[str(one[key])] = f"A window of {profiler}: {one[key]}"
    yield from list(told.values())[:5]


def _filter(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup:
    seen = reading.profiled
    ranks = [("", "all"), *((str(rank), str(rank)) for rank in seen.ranks)]
    devices = [("", "all"), *((str(device), f"GPU {device}") for device in seen.devices)]
    fields = (
        choice(asked, "rank", "rank", ranks),
        choice(asked, "device", "GPU", devices) if seen.devices else "",
        entry(asked, "most", "sectors (k)", kind="number", min=1, max=MOST_SECTORS, default=str(SECTORS)),
    )
    return form(rendering, asked, "what is shown", *fields, keep=("shown", "where"))


def _ranges(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Iterator[Markup]:
    """Draw the histogram of steps, one for each range that was asked for, and the form for one more."""
    shown = lines(asked.get("shown", ""))
    if (new := asked.get("annotation", "").strip()) and new not in shown:
        shown.append(new)
    drawn = [picture(rendering, reading, "device_step_histogram", asked)]
    for name in shown[-12:]:
        left = "\n".join(other for other in shown if other != name)
        remove = link(rendering, asked, f"remove the histogram of {name[:60]}", shown=left, annotation="")
        histogram = picture(rendering, reading, "annotation_histogram", {**asked, "annotation": name})
        drawn.append(tag("div", histogram, tag("p", remove, class_="note")))
    yield tag("div", *drawn, class_="charts")
    names = (tag("option", value=name) for name in reading.profiled.annotations()[:_NAMES])
    more = {"list": "annotations", "placeholder": "name of a range", "autocomplete": "off"}
    yield form(
        rendering,
        {**asked, "shown": "\n".join(shown)},
        "a new histogram",
        entry({}, "annotation", "histogram of", **more),
        tag("datalist", *names, id="annotations"),
        choice(
            asked, "where", "measured", [("host", "on the host"), ("gpu", "on GPUs, of what it launched")]
        ),
        button="Add",
        keep=("shown", "most", *_PLACE),
    )


def _kernels(tables: Mapping[str, Table]) -> Iterator[list[str]]:
    for row in kernel_table(tables, most=_KERNELS).to_rows():
        compute = row["kind"] == "compute"
        yield [
            _named(row["name"]),
            row["kind"],
            precision(row["name"]) if compute else "",
            Number(row["launches"]),
            *(time_cell(row[name]) for name in ("total_ns", "mean_ns", "min_ns", "max_ns")),
            share_cell(row["share_pct"]),
        ]


def _named(name: str) -> str:
    """Return a kernel's short name, which opens to the whole."""
    plain = plain_kernel(name)
    if plain == name:
        return name
    return tag("details", tag("summary", plain), name)


def _memory(tables: Mapping[str, Table]) -> Iterator[list[str]]:
    for row in memory_table(tables).to_rows():
        known = row["gb_per_s"] == row["gb_per_s"]
        yield [
            words(row["kind"]),
            row["memory"] or "unknown",
            Number(row["operations"]),
            time_cell(row["total_ns"]),
            Number(row["bytes"], size(row["bytes"]) if row["bytes"] else "unknown"),
            share_cell(row["share_pct"]),
            Number(row["gb_per_s"] if known else None, f"{row['gb_per_s']:.3g}" if known else "unknown"),
        ]


def _operators(rendering: Rendering, tables: Mapping[str, Table]) -> Markup:
    kinds = ("operator", "module", "python", "annotation")
    times = ("own_ns", "total_ns", *(("device_ns",) if tables["kernels"].rows else ()))

    def rows() -> Iterator[list[str]]:
        for row in operator_table(tables, kinds=kinds, most=_OPERATORS).to_rows():
            yield [row["name"], row["kind"], Number(row["calls"]), *(time_cell(row[name]) for name in times)]

    heads = ("name", "kind", "calls", "self time", "total time", "GPU time")[: 3 + len(times)]
    return sortable(
        rendering,
        "operators",
        f"Operators and functions, the {_OPERATORS} with most self time",
        heads,
        rows(),
    )


def _windows_table(rendering: Rendering, reading: Reading) -> Markup:
    def rows() -> Iterator[list[str]]:
        for one in reading.profiled.windows[-_NAMES:]:
            begin, end, last = (one.get(name) for name in ("begin", "end", "last_step"))
            since = (begin - reading.start) / 1e9 if isinstance(begin, int) else None
            took = end - begin if isinstance(begin, int) and isinstance(end, int) else None
            found = one.get("rows")
            counts = found if isinstance(found, dict) else {}
            yield [
                words(str(one.get("profiler", ""))),
                f"{one.get('first_step', '?')} to {last - 1}" if isinstance(last, int) else "",
                Number(one["rank"]),
                Number(since, "" if since is None else f"{since:,.3f} s"),
                time_cell(took),
                ", ".join(f"{count:,} {words(name)}" for name, count in counts.items())
                or str(one.get("refused") or one.get("missing") or "nothing"),
            ]

    heads = ("profiler", "steps", "rank", "since the start", "duration", "rows")
    return sortable(rendering, "windows", "Profiling windows", heads, rows())
