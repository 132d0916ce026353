"""The view of operators: what the host ran in profiled steps, the steps, and named ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.host.operator_tree import operator_table
from holter.drawing.markup import tag
from holter.drawing.pieces import prose
from holter.pages.forms import choice, entry, form, lines, link, number, picture
from holter.pages.layout import bare, card, grid
from holter.pages.tables import Number, sortable, time_cell
from holter.views.document.profiled import HOW
from holter.views.figures.device._shares import profiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.schema.table import Table
    from holter.views.reading import Reading

TITLE = "Operators"
SHOWN = 20
_OPERATORS, _NAMES = 100, 500
_MOST_SHOWN = 12


def present(reading: Reading) -> bool:
    """Whether operators were recorded."""
    return bool(reading.profiled.tables["operators"].rows)


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Iterator[Markup]:
    """Draw the view."""
    seen = reading.profiled
    rank, device = number(asked, "rank"), number(asked, "device")
    tables = profiled(reading, rank if seen.ranks else None, device if seen.devices else None)
    if not tables["operators"].rows:
        yield tag("p", "No operators were recorded. ", prose(HOW), class_="empty")
    yield grid(
        bare(_operators(rendering, tables), columns=12) if tables["operators"].rows else None,
        *_ranges(rendering, reading, asked),
    )


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


def _ranges(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Iterator[Markup]:
    """Draw the histogram of steps, one for each range that was asked for, and the form for one more."""
    shown = lines(asked.get("shown", ""))
    if (new := asked.get("annotation", "").strip()) and new not in shown:
        shown.append(new)
    if reading.profiled.ran:
        yield bare(picture(rendering, reading, "device_step_histogram", asked))
    for name in shown[-_MOST_SHOWN:]:
        left = "\n".join(other for other in shown if other != name)
        remove = link(rendering, asked, f"remove the histogram of {name[:60]}", shown=left, annotation="")
        histogram = picture(rendering, reading, "annotation_histogram", {**asked, "annotation": name})
        yield bare(histogram, tag("p", remove, class_="note"))
    known = reading.profiled.annotations()[:_NAMES]
    if not known:
        return
    names = (tag("option", value=name) for name in known)
    more = {"list": "annotations", "placeholder": "name of a range", "autocomplete": "off"}
    asking = form(
        rendering,
        {**asked, "shown": "\n".join(shown)},
        "a new histogram",
        entry({}, "annotation", "histogram of", **more),
        tag("datalist", *names, id="annotations"),
        choice(
            asked, "where", "measured", [("host", "on the host"), ("gpu", "on GPUs, of what it launched")]
        ),
        button="Add",
        keep=("view", "shown", "most", "device"),
    )
    yield card("Durations of a named range", asking)
