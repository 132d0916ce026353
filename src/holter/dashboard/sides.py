"""Jobs side by side, as a page says it."""

from __future__ import annotations

from html import escape
from typing import Any

from holter.report.sections import bullets, table
from holter.views.changes import changes, comparison_rows


def side_by_side(document: dict[str, Any]) -> str:
    """Draw what `holter compare` prints."""
    jobs = document["jobs"]
    heads = ("", *(job["name"] for job in jobs))
    rows = [(name, *(tell(job) for job in jobs)) for name, tell in comparison_rows(jobs)]
    told = "".join(
        f"<h2>{escape(change['job'])} against {escape(document['baseline'])}</h2>{bullets(changes(change))}"
        for change in document["changes"]
    )
    return f"<h1>Comparison</h1>{table(heads, rows, numbers=range(1, len(heads)))}{told}"
