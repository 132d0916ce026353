"""The page that compares jobs: changes, a table, charts, and what the change saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from holter.dashboard.answers import amount, whole
from holter.drawing.markup import html, tag
from holter.pages.text.sections import breakdown, bullets, table
from holter.views.comparison.changes import changes, comparison_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

    from holter.views.comparison.types import Comparison

ASKED = {
    "price": "price of a machine an hour",
    "epochs": "epochs of a whole run",
    "nodes": "machines",
    "epoch_steps": "steps of an epoch",
}
"""Parameters of the saving that a comparison computes, with their labels."""

_MOST = 10**12


def saving_parameters(asked: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of the saving; raises `RefusalError` for invalid numbers."""
    found: dict[str, Any] = {}
    for name in ASKED:
        if name == "epoch_steps" and asked.get(name):
            found[name] = whole(asked, name, 1, _MOST)
        elif (given := amount(asked, name, 0, _MOST)) is not None:
            found[name] = given
    return found


def side_by_side(
    document: Comparison, places: Sequence[str], asked: Mapping[str, str], charts: str = ""
) -> Markup:
    """Draw what `holter compare` prints, and `charts`; `places` are the jobs as the address names them.

    The first job is the baseline.
    """
    jobs = document["jobs"]
    heads = ("", *(job["name"] for job in jobs))
    rows = [(name, *(tell(job) for job in jobs)) for name, tell in comparison_rows(jobs)]
    changed = html(
        *(
            html(tag("h2", change["job"], " against ", document["baseline"]), bullets(changes(change)))
            for change in document["changes"]
        )
    )
    bars = html(
        *(
            tag("section", tag("h3", job["name"]), breakdown(job["breakdown"]))
            for job in jobs
            if job["breakdown"]
        )
    )
    split = html(tag("h2", "Where a step's time goes"), tag("div", bars, class_="columns")) if bars else ""
    return html(
        tag("h1", "Comparison"),
        _baseline(document["baseline"], places, asked),
        changed,
        tag("h2", "Side by side"),
        table(heads, rows, numbers=range(1, len(heads))),
        charts,
        split,
        tag("h2", "What the change saves"),
        _form(places, asked),
    )


def _baseline(name: str, places: Sequence[str], asked: Mapping[str, str]) -> Markup:
    """Name the baseline, with a link for each other job that makes it the baseline."""
    kept = [(key, asked[key]) for key in ASKED if asked.get(key)]
    links = [
        tag(
            "a",
            other.partition("/")[2],
            href=f"/compare?{urlencode([*(('job', one) for one in places), ('baseline', other), *kept])}",
        )
        for other in places[1:]
    ]
    why = "" if asked.get("baseline") else " (the oldest)"
    said = html("Baseline: ", tag("b", name), f"{why}. Use another one: ")
    return tag("p", said, *(part for link in links for part in (link, " ")), class_="note")


def _form(places: Sequence[str], asked: Mapping[str, str]) -> Markup:
    jobs = html(*(tag("input", type="hidden", name="job", value=one) for one in places))
    jobs += tag("input", type="hidden", name="baseline", value=places[0])
    fields = html(
        *(
            tag(
                "label",
                label,
                " ",
                tag("input", type="number", step="any", min="0", name=name, value=asked.get(name, "")),
            )
            for name, label in ASKED.items()
        )
    )
    return html(
        tag("form", jobs, fields, tag("button", "Compute"), class_="search", action="/compare"),
        tag(
            "p",
            "With a price and a number of epochs, the comparison shows what a whole run saves.",
            class_="note",
        ),
    )
