"""Exports what takes the time, and the issues, as SARIF: editors and GitHub show them at their lines.

The format is SARIF 2.1.0 (OASIS). holter records the last parts of a file's path. The file is looked up below
the current folder; a result whose file is missing there, or is there twice, has no line.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from holter.analysis.verdict.evidence import function_name
from holter.report.exports import ExportSelection, opened
from holter.views.document.description import describe
from holter.views.issues import ordered
from holter.views.wording import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.store.documents import Document
    from holter.store.trial import Trial
    from holter.views.document.types import Description

ABOUT = "slow lines of code and issues, for editors and GitHub code scanning"
SUFFIX = ".sarif"
SHOW = "a SARIF viewer of an editor, or github/codeql-action/upload-sarif with {output}"
NEEDS = "manifest"

LEAST_PCT = 5.0
"""Code that takes a smaller share is left out."""
_MOST_FILES = 50_000
_PLACE = re.compile(r"\(([^()\s:]+\.py):(\d+)\)")
_LEVELS = {"info": "note", "warning": "warning", "critical": "error"}
_LEFT_OUT = {"node_modules", "site-packages", "__pycache__", "venv"}
Place = tuple[str, int]
"""A file as it was recorded, and its line."""


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write a SARIF log with one run; returns the number of runs and results. A healthy job has no result.

    Raises:
        OSError: The file cannot be written.
        ValueError: A part of the job was chosen, or its manifest cannot be read.
    """
    if chosen != ExportSelection():
        raise ValueError("sarif describes the whole job; leave out --steps, --seconds, --rank and --low-gpu")
    if trial.folder.fault:
        raise ValueError(trial.folder.fault)
    from holter import __version__

    results = list(_results(describe(trial), _Sources(Path.cwd())))
    rules = sorted({one["ruleId"] for one in results})
    driver = {"name": "holter", "version": __version__, "rules": [{"id": name} for name in rules]}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    with opened(output) as file:
        file.write(msgspec.json.format(msgspec.json.encode(log), indent=2))
    return 1 + len(results)


def _results(about: Description, sources: _Sources) -> Iterator[Document]:
    for own in about["own_code"]:
        if own["pct"] >= LEAST_PCT:
            calls = f", mostly in {own['calls']}" if own["calls"] else ""
            text = f"{function_name(own['function'])} takes {percent(own['pct'])} of each step{calls}"
            kind = "slow-data-loading" if own["data_loading"] else "slow-code"
            yield _result(kind, "warning", text, sources.located((own["file"], own["line"])))
    loading = about["dataloading"]
    for called in loading["callables"] if loading else []:
        if (called["fetch_pct"] or 0.0) >= LEAST_PCT:
            place = _place(called["name"])
            share = percent(called["fetch_pct"])
            text = f"{called['name']} takes {share} of the time in which batches are built"
            yield _result("slow-data-loading", "warning", text, sources.located(place))
    for found in ordered(about["rules"]):
        advice = found.issue.get("advice")
        text = f"{found.issue['summary']}{f'. {advice}' if advice else ''}"
        yield _result(found.rule, _LEVELS[found.severity], text, sources.located(_place(text)))


def _result(rule: str, level: str, text: str, location: Document | None) -> Document:
    located = {"locations": [{"physicalLocation": location}]} if location else {}
    return {"ruleId": rule, "level": level, "message": {"text": text}, **located}


def _place(text: str) -> Place | None:
    found = _PLACE.search(text)
    return (found[1], int(found[2])) if found else None


class _Sources:
    """The Python files below a folder, by their names."""

    def __init__(self, root: Path) -> None:
        self._paths: dict[str, list[str]] = {}
        count = 0
        for folder, inner, files in os.walk(root):
            inner[:] = sorted(name for name in inner if name not in _LEFT_OUT and not name.startswith("."))
            for name in files:
                if name.endswith(".py"):
                    path = (Path(folder) / name).relative_to(root).as_posix()
                    self._paths.setdefault(name, []).append(path)
                    count += 1
            if count > _MOST_FILES:  # this is no checkout
                break

    def located(self, place: Place | None) -> Document | None:
        """Return where a place is, as SARIF writes it; None if it is not there, or ambiguous."""
        if place is None:
            return None
        file, line = place
        near = [path for path in self._paths.get(Path(file).name, []) if f"/{path}".endswith(f"/{file}")]
        if len(near) != 1 or line < 1:
            return None
        return {"artifactLocation": {"uri": quote(near[0])}, "region": {"startLine": line}}
