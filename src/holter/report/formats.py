"""Formats of the report: an HTML page, a notebook that draws it again, and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from holter.pages.data.encoding import encoded
from holter.pages.file import page
from holter.views.comparison.changes_markdown import escaped
from holter.views.figures import draw, names
from holter.views.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.documents import Document
    from holter.store.trial import Trial
    from holter.views.document.types.rules import RuleResult


def report(trial: Trial, kind: str, *, price: float | None = None, rules: Sequence[Document] = ()) -> str:
    """Return the report of a job as `html`, `ipynb` or `json`; raises `ValueError` for another kind.

    `price` is the price of one machine per hour. The page also shows `rules`, documents of rules that judged
    the job only now.
    """
    if kind == "html":
        reading = Reading(trial, price=price)
        reading.description["rules"] += cast("Sequence[RuleResult]", rules)
        return page(reading)
    if kind == "json":
        return encoded(document(trial, price)).decode() + "\n"
    if kind == "ipynb":
        return json.dumps(notebook(trial, price), ensure_ascii=False, indent=1) + "\n"
    raise ValueError(f"no kind of report {kind!r}; there are: html, ipynb, json")


def document(trial: Trial, price: float | None = None) -> Document:
    """Return the description and all charts as data; of a chart that cannot be drawn, why."""
    reading = Reading(trial, price=price)
    drawn = {name: draw(name, reading) for name in names()}
    return {
        "schema": 1,
        "description": reading.description,
        "figures": {name: one.to_json() for name, one in drawn.items() if not isinstance(one, str)},
        "missing": {name: one for name, one in drawn.items() if isinstance(one, str)},
    }


def notebook(trial: Trial, price: float | None = None) -> Document:
    """Return a notebook whose cells make the report with the library, and can be extended."""
    reading = Reading(trial)
    name = trial.folder.name  # not the manifest's, which may be any text
    cells = [
        (
            "markdown",
            f"# {escaped(name)}\n\nMade by `holter report`; every cell can be changed and run again.",
        ),
        ("code", f"import holter\n\njob = holter.open({trial.folder.url!r})\njob.diagnose()"),
        ("code", f"job.summary({'' if price is None else f'price={price!r}'})"),
    ]
    drawn = [figure for figure in names() if not isinstance(draw(figure, reading), str)]
    if unread := reading.description["skipped"]:
        # The reasons quote values of the files, which have no place in a document that others edit and run.
        files = "".join(f"- {escaped(one['file'])}\n" for one in unread)
        reasons = "`holter describe` gives the reasons."
        cells.insert(1, ("markdown", f"## Files that could not be read\n\n{files}\n{reasons}"))
    cells += [("code", f"job.figure({figure!r})") for figure in drawn]
    cells.append(("code", 'job.trial.sql("SELECT metric, avg(value) FROM samples GROUP BY metric")'))
    return notebook_of(cells)


def notebook_of(cells: Sequence[tuple[str, str]]) -> Document:
    """Return a notebook (nbformat 4.5) with these cells: `markdown` or `code`, and the text."""
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"language_info": {"name": "python"}},
        "cells": [_cell(at, kind, text) for at, (kind, text) in enumerate(cells)],
    }


def _cell(at: int, kind: str, text: str) -> Document:
    cell: Document = {"id": f"cell-{at}", "cell_type": kind, "metadata": {}, "source": text}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
