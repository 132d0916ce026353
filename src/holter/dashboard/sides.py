"""Jobs side by side, as a page says it: before and after, with what the difference is worth."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from holter.dashboard.answers import amount, whole
from holter.pages.text.sections import breakdown, bullets, table
from holter.views.comparison.changes import changes, comparison_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ASKED = {
    "price": "price of a machine an hour",
    "epochs": "epochs of a whole run",
    "nodes": "machines",
    "epoch_steps": "steps of an epoch",
}
"""What a comparison can be told beside the jobs, and what that is."""

_MOST = 10**12


def told(asked: Mapping[str, str]) -> dict[str, Any]:
    """Return what a comparison is told; raises `RefusalError` for what is no number."""
    found: dict[str, Any] = {}
    for name in ASKED:
        if name == "epoch_steps" and asked.get(name):
            found[name] = whole(asked, name, 1, _MOST)
        elif (given := amount(asked, name, 0, _MOST)) is not None:
            found[name] = given
    return found


def side_by_side(
    document: dict[str, Any], places: Sequence[str], asked: Mapping[str, str], charts: str = ""
) -> str:
    """Draw what `holter compare` prints, and `charts`; `places` are the jobs as the address names them."""
    jobs = document["jobs"]
    heads = ("", *(job["name"] for job in jobs))
    rows = [(name, *(tell(job) for job in jobs)) for name, tell in comparison_rows(jobs)]
    changed = "".join(
        f"<h2>{escape(change['job'])} against {escape(document['baseline'])}</h2>{bullets(changes(change))}"
        for change in document["changes"]
    )
    bars = "".join(
        f"<section><h3>{escape(job['name'])}</h3>{breakdown({**job, 'dataloading': None})}</section>"
        for job in jobs
        if job["breakdown"]
    )
    split = f'<h2>Where a step\'s time goes</h2><div class="columns">{bars}</div>' if bars else ""
    return (
        f"<h1>Comparison</h1>{changed}<h2>Side by side</h2>{table(heads, rows, numbers=range(1, len(heads)))}"
        f"{charts}{split}<h2>What it is worth</h2>{_form(places, asked)}"
    )


def _form(places: Sequence[str], asked: Mapping[str, str]) -> str:
    jobs = "".join(f'<input type="hidden" name="job" value="{escape(one, quote=True)}">' for one in places)
    fields = "".join(
        f'<label>{said} <input type="number" step="any" min="0" name="{name}" '
        f'value="{escape(asked.get(name, ""), quote=True)}"></label>'
        for name, said in ASKED.items()
    )
    return (
        f'<form class="search" action="/compare">{jobs}{fields}<button>Compute</button></form>'
        '<p class="note">With a price and a number of epochs the comparison says what a whole run saves.</p>'
    )
