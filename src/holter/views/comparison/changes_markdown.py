"""Writes a comparison of jobs as Markdown, for a pull request or a workflow summary."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holter.views.comparison.changes import changes, comparison_rows

if TYPE_CHECKING:
    from holter.views.comparison.types import Comparison

_MEANS_SOMETHING = re.compile(r"([\\`*_\[\]<>|~#&])")


def markdown(document: Comparison) -> str:
    """Return what `holter compare` prints as GitHub-flavored Markdown: a table, then a list for each job."""
    jobs = document["jobs"]
    lines = [_row(["", *(job["name"] for job in jobs)]), "|---|" + "---:|" * len(jobs)]
    lines += [_row([name.strip(), *map(tell, jobs)]) for name, tell in comparison_rows(jobs)]
    for change in document["changes"]:
        lines += ["", f"**{escaped(change['job'])}** against {escaped(document['baseline'])}", ""]
        lines += [f"- {escaped(line)}" for line in changes(change)]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _MEANS_SOMETHING.sub(r"\\\1", " ".join(text.split()))
