"""Marks of a job: what they are of, when, and how many at most."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import told

from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.marks import MOST, marks
from holter.views.reading import Reading


def test_epochs_and_checkpoints_of_the_first_rank_and_findings_are_marked_in_order(tmp_path: Path) -> None:
    folder, made = told("before", str(tmp_path), ranks=2, cores=1, steps=60, samples=20)
    start = made.manifest["start"]
    begins = [start + at * 10**9 for at in (1, 5, 9)]
    writer = Writer(folder, next(iter(made.nodes)))
    events = {"time": begins * 2, "rank": [0] * 3 + [1] * 3, "kind": ["epoch"] * 6, "name": ["1"] * 6}
    writer.append("events", {**events, "detail": ["{}"] * 6})
    writer.close()
    issue = {"summary": "x", "severity": "warning"}
    late = {**issue, "time_start": start + 6 * 10**9, "time_end": start + 7 * 10**9}
    rule = {"name": "Slow", "status": "IssuesFound"}
    folder.write_evaluations({"rules": [{**rule, "issues": [late, {**late, "severity": "info"}]}]})
    found = marks(Reading(Trial(folder), width=50))
    assert [one["begin"] for one in found] == sorted(one["begin"] for one in found)
    assert [(one["begin"], one["text"]) for one in found if one["kind"] == "epoch"] == [
        (1.0, "epoch 1"),
        (5.0, "epoch 2"),
        (9.0, "epoch 3"),
    ]
    assert [(one["begin"], one["end"]) for one in found if one["kind"] == "finding"] == [(6.0, 7.0)]


def test_a_job_with_many_epochs_marks_some_of_them(tmp_path: Path) -> None:
    folder, made = told("after", str(tmp_path), ranks=1, cores=1, steps=60, samples=20)
    start, count = made.manifest["start"], 500
    writer = Writer(folder, next(iter(made.nodes)))
    events = {"time": [start + at * 10**8 for at in range(count)], "rank": [0] * count}
    writer.append(
        "events", {**events, "kind": ["epoch"] * count, "name": ["1"] * count, "detail": ["{}"] * count}
    )
    writer.close()
    texts = [one["text"] for one in marks(Reading(Trial(folder), width=50)) if one["kind"] == "epoch"]
    assert len(texts) == MOST
    assert (texts[0], texts[-1]) == ("epoch 1", "epoch 500")
