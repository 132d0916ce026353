"""Small tables for tests of rules, and one evaluation of a rule on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from holter.rules import Issue, Job, Rule, Window
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
MIB, GIB = 2**20, 2**30
ENDED = Job(start=START, ended=True)


def samples(series: dict[tuple[str, str], Any], *, node: str = "n0", interval_s: float = 0.5) -> Table:
    """Make samples from (metric, device) → values."""
    rows = [
        {
            "time": START + round((i + 1) * interval_s * SECOND),
            "device": device,
            "metric": metric,
            "value": v,
            "node": node,
        }
        for (metric, device), values in series.items()
        for i, v in enumerate(values)
    ]
    return Table.of("samples", rows)


def steps(durations_s: Any, *, rank: int = 0, first: int = 0, start: int = START, **shares: float) -> Table:
    """Make steps of one rank one after another; `shares` are parts of their time, the rest is `other`."""
    length = np.array([round(d * SECOND) for d in durations_s], dtype=np.int64)
    time = start + np.concatenate([[0], np.cumsum(length)[:-1]])
    rows = []
    for i, (begin, duration) in enumerate(zip(time.tolist(), length.tolist(), strict=True)):
        parts = {name: round(shares.get(name, 0.0) * duration) for name in BREAKDOWN if name != "other"}
        row = {
            "time": begin,
            "duration": duration,
            "rank": rank,
            "step": first + i,
            "mode": "train",
            "node": "n0",
        }
        rows.append({**row, **parts, "other": duration - sum(parts.values()), "compile": 0})
    return Table.of("steps", rows)


def look(
    rule: Rule, *, job: Job | None = None, state: Any = None, **tables: Table
) -> tuple[list[Issue], Window]:
    """Evaluate a rule once on whole tables."""
    window = Window.of(rule.lookback, job=job, state=state, **tables)
    return list(rule.evaluate(window)), window


def found(rule: Rule, *, job: Job | None = None, **tables: Table) -> list[Issue]:
    """Return what a rule finds in whole tables, when it could judge them; fails when it could not."""
    issues, window = look(rule, job=job, **tables)
    assert issues or window.points or window.lack is None, window.lack
    return issues


def judged(rule: Rule, tables: dict[str, Table]) -> list[Issue]:
    """Return what a rule finds in whole tables of a job that has ended."""
    return found(rule, job=ENDED, **tables)


def lack(rule: Rule, tables: dict[str, Table]) -> Any:
    """Return why a rule cannot judge whole tables of a job that has ended."""
    issues, window = look(rule, job=ENDED, **tables)
    assert issues == []
    return window.lack


def classic(rule: type[Rule], **given: object) -> Rule:
    """Make a rule with the defaults of the classic profile."""
    return rule.of(given, defaults="classic")


def codes(issues: list[Issue]) -> list[tuple[str, str]]:
    """Return the code and the severity of each issue."""
    return [(issue.code, issue.severity) for issue in issues]


def severities(issues: list[Issue]) -> list[str]:
    """Return the severity of each issue."""
    return [issue.severity for issue in issues]
