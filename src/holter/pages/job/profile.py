"""The page about profiled steps and traces: kernels, operators, Python code and memory, a view for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.addresses import KEPT, to_page
from holter.pages.forms import link, number
from holter.pages.layout import WHOLE, bare, grid
from holter.pages.profile import views
from holter.pages.tables import Number, sortable, time_cell
from holter.views.document.profiled import HOW
from holter.views.jobs import RUNNING
from holter.views.wording import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.store.documents import Document
    from holter.views.reading import Reading

TITLE = "Profile"
SHOWN = 40
_NAMES, _MOST_TOLD = 500, 5
_TABLES = ("operators", "kernels", "memory_operations", "python_functions", "python_stacks")
_RUNNING = "Nothing has been profiled so far. Controls or `holter profile JOB --count 3` start a window."
_MISSING = f"Nothing was profiled. {HOW} `holter profile JOB --python pyinstrument` samples Python code."


def missing(reading: Reading) -> str | None:
    """Say how to profile steps."""
    if any(reading.trial.newest(name) is not None for name in _TABLES) or views()["flame"].present(reading):
        return None
    return _RUNNING if reading.description["job"]["status"] in RUNNING else _MISSING


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page: one view of it, or all views in a report file."""
    head = (tag("h1", TITLE), *(tag("p", text) for text in _windows(reading.profiled.windows)))
    if (lacking := missing(reading)) and not asked.get("view"):
        start = None
        if reading.description["job"]["status"] in RUNNING and not rendering.standalone:
            there = to_page(rendering, reading, asked, "controls")
            start = tag("a", "Open Controls", href=there, data_drawer="controls")
        lack = tag("p", prose(lacking), " ", start, class_="empty")
        return html(*head, lack, _windows_table(rendering, reading, asked))
    if rendering.standalone:
        parts = (
            html(tag("h2", one.TITLE), *one.draw(reading, asked, rendering))
            for one in views().values()
            if one.present(reading)
        )
        return html(*head, _said(reading), *parts, _windows_table(rendering, reading, asked))
    name = _chosen(reading, asked)
    rank, ranks = number(asked, "rank"), reading.profiled.ranks
    lacks = rank is not None and ranks and rank not in ranks and name != "flame"  # which finds its own ranks
    drawn = [_other_ranks(rendering, asked)] if lacks else views()[name].draw(reading, asked, rendering)
    return html(
        *head,
        _said(reading),
        _links(rendering, reading, asked, name),
        *drawn,
        _windows_table(rendering, reading, asked),
    )


def _other_ranks(rendering: Rendering, asked: Mapping[str, str]) -> Markup:
    """Say that the chosen rank was not profiled."""
    every = link(rendering, {**asked, "rank": ""}, "Show all ranks")
    return tag("p", f"Rank {asked['rank']} was not profiled; other ranks were. ", every, class_="empty")


def _chosen(reading: Reading, asked: Mapping[str, str]) -> str:
    """Return the view to show: the one that is asked for, or the first that has data."""
    known, wanted = views(), asked.get("view", "")
    if wanted and wanted not in known:
        raise ValueError(f"there is no view {wanted[:40]!r}; there are: {', '.join(known)}")
    return wanted or next((name for name, one in known.items() if one.present(reading)), next(iter(known)))


def _links(rendering: Rendering, reading: Reading, asked: Mapping[str, str], shown: str) -> Markup:
    """Return the links to the views; those without data are dimmed."""
    kept = {name: asked[name] for name in ("store", *KEPT) if asked.get(name)}
    links = (
        tag(
            "li",
            link(rendering, kept, one.TITLE, view=name)
            if name != shown
            else tag("b", one.TITLE, aria_current="true"),
            class_=None if one.present(reading) else "dimmed",
        )
        for name, one in views().items()
    )
    return tag("nav", tag("ul", *links), class_="views", aria_label="views of the profile")


def _said(reading: Reading) -> Markup:
    """Summarize what was recorded."""
    seen = reading.profiled
    tables = seen.tables
    counts = [
        counted(tables[name].rows, *nouns)
        for name, nouns in (
            ("kernels", ("kernel",)),
            ("memory_operations", ("copy or fill", "copies and fills")),
            ("launches", ("launch", "launches")),
            ("operators", ("operator or host event", "operators and host events")),
        )
        if tables[name].rows
    ]
    if not counts:
        return html()
    source = "an imported trace" if "imported" in reading.trial.manifest else "profiling windows"
    gpus = f", on {counted(len(seen.places), 'GPU')}" if seen.places else ""
    return tag("p", f"From {source}: {', '.join(counts)}{gpus}.", WHOLE, class_="dim")


def _windows(windows: list[Document]) -> Iterator[str]:
    """Yield why windows recorded nothing, each reason once."""
    told = {}
    for one in windows:
        for key in ("refused", "missing"):
            if one.get(key):
                profiler = words(str(one.get("profiler", "the profiler")))
                told[str(one[key])] = f"A window of {profiler}: {one[key]}"
    yield from list(told.values())[:_MOST_TOLD]


def _windows_table(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup:
    rank = number(asked, "rank")
    shown = [one for one in reading.profiled.windows if rank in (None, one["rank"])]
    if not shown:
        return html()

    def rows() -> Iterator[list[str]]:
        for one in shown[-_NAMES:]:
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
    return grid(bare(sortable(rendering, "windows", "Profiling windows", heads, rows()), columns=12))
