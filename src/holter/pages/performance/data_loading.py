"""Data loading: workers, batches in flight, stages, waits and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from holter.analysis.verdict.device_facts import LOADING
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.forms import number, picture
from holter.pages.layout import WHOLE, bare, grid
from holter.pages.performance.pipeline import pipeline_stages
from holter.pages.tables import Number, share_cell, sortable, time_cell
from holter.pages.text.sections import bullets, table
from holter.views.document.loaders import loaders
from holter.views.wording import advice_text, percent, stages_text, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holter.pages.islands import Rendering
    from holter.views.document.loaders import LoaderSummary
    from holter.views.document.types import Description
    from holter.views.document.types.training import LoadingCallable
    from holter.views.document.types.values import TableRow
    from holter.views.reading import Reading

_EMPTY = (
    "No data loading was recorded: no step waited for a batch, and no torch DataLoader was used. "
    "`holter run -- python train.py` records a DataLoader automatically."
)
_UNSEEN = (
    "The wait cannot be divided: no torch DataLoader was used. `holter profile JOB --python cprofile` while "
    "the job runs, or `holter run --profile-steps 60:63:cprofile`, shows which functions take the time."
)
_DURATIONS: dict[Literal["next_batch", "batch_time", "initialization", "worker_life"], str] = {
    "next_batch": "wait for a batch",
    "batch_time": "from one batch to the next",
    "initialization": "creating an iterator",
    "worker_life": "lifetime of a worker",
}
_MOST_OUTLIERS = 5
_CALLS = 4
"""Histograms of ranges whose names speak of loading."""
_OF_BATCHES: dict[Literal["queued", "waited", "handover"], str] = {
    "queued": "a finished batch waits in the queue",
    "waited": "training waits until it is built",
    "handover": "training waits until it arrives",
}
_ABOUT = ("data", "batch", "load", "worker", "fetch")
_FACTS = {
    "workers": "workers",
    "prefetch_factor": "prefetch_factor",
    "batch_size": "batch size",
    "pin_memory": "pin_memory",
    "persistent_workers": "persistent_workers",
    "dataset": "dataset",
}


def data_loading(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw everything about data loading."""
    told = reading.description
    steps = reading.steps
    waited = bool(steps.rows and steps["data_loading"].any())
    if not (waited or reading.loading.spans.rows):
        return _of_trace(rendering, reading, asked) or tag("p", prose(_EMPTY), class_="empty")
    rank = number(asked, "rank")
    found = loaders(reading.trial, **reading.bounds, rank=rank)
    parts = [_said(told, found)]
    stages = pipeline_stages(rendering, reading, asked)

    def one(name: str, columns: int = 6) -> Markup:
        return bare(picture(rendering, reading, name, asked), columns=columns)

    if not (found["workers"] or found["callables"] or any(found[name]["count"] for name in _DURATIONS)):
        unseen = None if stages else tag("p", prose(_UNSEEN), class_="note")
        return html(*parts, stages, grid(one("loader_waits", 12)), unseen)
    middle = "A few batches of the middle of the job. Choose a time window to see others."
    return html(
        *parts,
        stages,
        grid(
            bare(
                picture(rendering, reading, "loader_workers", asked),
                tag("p", middle, class_="note"),
                columns=6,
            ),
            one("loader_waits"),
            one("batches_in_flight", 12),
            one("data_loading", 4),
            one("fetch_times", 4),
            one("batch_sizes", 4),
            bare(
                _callables(
                    rendering, found["callables"] if reading.bounds or rank is not None else _of_job(told)
                )
            ),
            bare(_workers(rendering, found)),
            bare(_durations(rendering, found)),
            bare(_outliers(rendering, reading, found)),
        ),
    )


def _said(told: Description, found: LoaderSummary) -> Markup:
    """Summarize what the verdict says of the whole job, and what was measured of the part that is shown."""
    verdict = told["verdict"]
    guilty = "data_pipeline" in (verdict["suspect"], *verdict["also"])
    share = (told["breakdown"] or {}).get("data_loading")
    lines = []
    if guilty:
        lines.append(verdict["sentence"])
    elif share is not None:
        lines.append(f"Loading data takes {percent(share)} of a step; it is not the bottleneck.")
        lines += [one["because"] for one in verdict["ruled_out"] if one["suspect"] == "data_pipeline"]
    if stages := stages_text(told["dataloading"]):
        lines.append(f"Share of the training loop: {stages}.")
    measured = []
    if found["hidden_pct"] is not None:
        measured.append(
            f"{percent(found['hidden_pct'])} of the time to build batches overlaps with training."
        )
    if found["ready"] is not None:
        measured.append(f"On average {found['ready']:.2g} batches are queued.")
    mood = "sick" if guilty else ""
    first = tag("p", lines[0], WHOLE, class_="said") if lines else ""
    advice = [
        advice_text(one).removeprefix("→ ") + (f" ({one['why']})" if one["why"] else "")
        for one in verdict["advice"]
        if guilty
        and (verdict["suspect"] == "data_pipeline" or any(word in one["text"].lower() for word in _ABOUT))
    ]
    section = tag(
        "section",
        first,
        bullets(lines[1:]),
        html(tag("h3", "Advice"), bullets(advice)) if advice else None,
        class_=f"verdict {mood}",
    )
    return html(section, *(tag("p", line) for line in measured), _facts(found))


def _facts(found: LoaderSummary) -> Markup:
    """List the loaders as the script configured them; loaders with the same settings share a row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for one in map(dict[str, object], found["loaders"]):
        values = tuple("" if one.get(key) is None else _plain(one[key]) for key in _FACTS)
        rows.setdefault(values, []).append(f"{one.get('index', '?')} of rank {one.get('rank', '?')}")
    if not rows:
        return Markup()
    listed = [
        (f"{len(which)} loaders" if len(which) > 1 else which[0], *values) for values, which in rows.items()
    ]
    return table(("loader", *_FACTS.values()), listed)


def _plain(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _of_job(told: Description) -> Sequence[LoadingCallable]:
    """Return the functions that build batches in the whole job, with the shares that the Overview shows."""
    return told["dataloading"]["callables"] if told["dataloading"] else ()


def _callables(rendering: Rendering, found: Sequence[LoadingCallable]) -> Markup:
    if not found:
        return Markup()
    rows = ([one["name"], words(one["stage"] or ""), share_cell(one["fetch_pct"])] for one in found[:100])
    heads = ("function", "stage", "share of building batches")
    return sortable(rendering, "callables", "Functions that build batches", heads, rows)


def _workers(rendering: Rendering, found: LoaderSummary) -> Markup:
    if not found["workers"]:
        return tag("p", "No workers: the training thread loads the data itself.", class_="note")
    several = len({(one["rank"], one["loader"]) for one in found["workers"]}) > len(
        {one["rank"] for one in found["workers"]}
    )
    rows = (
        [
            Number(rank),
            Number(len({one["loader"] for one in mine})),
            _numbered(worker, "training thread"),
            Number(sum(one["batches"] for one in mine)),
            Number(sum(one["samples"] for one in mine)),
            time_cell(_mean(mine, "fetch_median")),
            share_cell(_mean(mine, "busy_pct")),
            share_cell(_mean(mine, "collate_pct")),
        ]
        for (rank, worker), mine in _by_worker(found["workers"]).items()
    )
    heads = ("rank", "loaders", "worker", "batches", "samples", "median fetch", "busy", "collating")
    title = "Workers: means over their loaders, weighted by batches" if several else "Workers"
    return sortable(rendering, "workers", title, heads, rows)


def _by_worker(rows: Sequence[TableRow]) -> dict[tuple[int, int], list[TableRow]]:
    """Return the rows of each worker of a rank: a loader that each epoch makes anew has a row for each."""
    found: dict[tuple[int, int], list[TableRow]] = {}
    for row in rows:
        found.setdefault((row["rank"], row["worker"]), []).append(row)
    return found


def _mean(rows: Sequence[TableRow], name: str) -> float | None:
    """Return the mean of a column, each row weighted by its batches; None if no row has a value."""
    known = [(row[name], max(row["batches"], 1)) for row in rows if row[name] is not None]
    weight = sum(batches for _, batches in known)
    return sum(value * batches for value, batches in known) / weight if weight else None


def _numbered(value: int, without: str) -> Number:
    return Number(value) if value >= 0 else Number(-1, without)


def _durations(rendering: Rendering, found: LoaderSummary) -> Markup:
    def rows() -> Iterator[list[str]]:
        for kind, title in _DURATIONS.items():
            one = found[kind]
            if one["count"]:
                times = (time_cell(one["median"]), time_cell(one["longest"]))
                yield [title, Number(one["count"]), *times, Number(len(one["outliers"]) + one["left_out"])]
        for name, title in _OF_BATCHES.items():
            if found[name] is not None:
                unknown = (Number(None), Number(None))
                yield [title, Number(found["batches"]), time_cell(found[name]), *unknown]

    heads = ("what", "count", "median", "longest", "outliers")
    listed = list(rows())
    return sortable(rendering, "durations", "How long it takes", heads, listed) if listed else Markup()


def _outliers(rendering: Rendering, reading: Reading, found: LoaderSummary) -> Markup:
    listed = [
        (said, one)
        for name, said in _DURATIONS.items()
        for one in sorted(found[name]["outliers"], key=lambda row: -row["duration"])[:_MOST_OUTLIERS]
    ]
    if not listed:
        return Markup()
    rows = (
        [
            title,
            Number(since := (one["begin"] - reading.start) / 1e9, f"{since:,.3f} s"),
            time_cell(one["duration"]),
            Number(one["rank"]),
            _numbered(one["worker"], "training thread"),
        ]
        for title, one in listed
    )
    heads = ("what", "since the start", "duration", "rank", "worker")
    return sortable(rendering, "outliers", "Outliers: the longest of each kind", heads, rows)


def _of_trace(rendering: Rendering, reading: Reading, asked: Mapping[str, str]) -> Markup:
    """Draw what an imported trace shows: how long accelerators wait for data, and how long its calls take."""
    told = reading.description
    calls = [name for name in reading.profiled.annotations() if LOADING.search(name)][:_CALLS]
    share = (told["breakdown"] or {}).get("data_loading") if "trace" in told else None
    if share is None and not calls:
        return Markup()
    verdict = told["verdict"]
    guilty = "data_pipeline" in (verdict["suspect"], *verdict["also"])
    line = f"Accelerators wait {percent(share or 0.0)} of the time while the host loads data."
    advice = [advice_text(one).removeprefix("→ ") for one in verdict["advice"]] if guilty else []
    drawn = [
        picture(rendering, reading, "annotation_histogram", {**asked, "annotation": name}) for name in calls
    ]
    return html(
        tag(
            "section",
            tag("p", verdict["sentence"] if guilty else line, class_="said"),
            html(tag("p", line), tag("h3", "Advice"), bullets(advice)) if guilty else None,
            class_=f"verdict {'sick' if guilty else ''}",
        ),
        tag(
            "p",
            "An imported trace shows when the host loads data; it says nothing about the workers.",
            class_="note",
        ),
        tag("div", *drawn, class_="charts"),
    )
