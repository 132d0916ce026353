"""`check_rule`: let a rule judge tables in a test and return the issues that an evaluation would keep."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import TYPE_CHECKING, Any

from holter.rules.engine.window import Window
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holter.rules.engine.job_facts import JobFacts
    from holter.rules.engine.table_json import State
    from holter.rules.rule import Issue, Rule


def check_rule(
    rule: Rule,
    tables: Mapping[str, Table | Iterable[Mapping[str, object]]],
    *,
    pieces: int = 1,
    job: JobFacts | None = None,
) -> list[Issue]:
    """Let a rule judge whole tables and return its issues, with repeats merged, in a fixed order.

    Args:
        rule: The rule, made with its parameters.
        tables: Rows by table, as `Table` or as mappings; absent columns take neutral values.
        pieces: The number of windows; a sound rule finds the same issues with any number.
        job: Facts of the job; by default computed from the rows.

    Raises:
        ValueError: There are no rows, or a table is unknown.
        TypeError: The rule keeps something in its state that JSON cannot hold.
    """
    made: dict[str, Any] = {
        name: rows if isinstance(rows, Table) else Table.of(name, rows) for name, rows in tables.items()
    }
    ends = [t["time"] + t["duration"] if "duration" in t else t["time"] for t in made.values() if t.rows]
    if not ends:
        raise ValueError(
            "check_rule needs rows: {'scalars': [{'time': …, 'step': …, 'name': …, 'value': …}]}"
        )
    first, last = min(int(e.min()) for e in ends) - 1, max(int(e.max()) for e in ends)
    facts = job or Window.of(**made).job
    edges = [first + (last - first) * i // pieces for i in range(pieces + 1)]
    state: State = {}
    kept: dict[tuple[Any, ...], Issue] = {}
    for start, end in itertools.pairwise(edges):
        here = dataclasses.replace(facts, ended=end == last)
        window = Window.of(rule.lookback, job=here, start=start, end=end, state=state, **made)
        for issue in rule.evaluate(window):
            before = kept.get(issue.key)
            kept[issue.key] = issue if before is None else _merged(before, issue)
        state = json.loads(json.dumps(window.state))
    return sorted(kept.values(), key=lambda issue: str(issue.key))


def _merged(before: Issue, issue: Issue) -> Issue:
    starts = [s for s in (before.step_start, issue.step_start) if s is not None]
    ends = [s for s in (before.step_end, issue.step_end) if s is not None]
    return dataclasses.replace(
        issue,
        count=before.count + issue.count,
        step_start=min(starts, default=None),
        step_end=max(ends, default=None),
        time_start=before.time_start,
    )
