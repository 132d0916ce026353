"""Other jobs that rules compare with: found by the names in a rule's parameters, read once."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from holter.store.job import JobFolder, JobNotFound, at
from holter.store.layout import JOB_NAME
from holter.store.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holter.evaluation.status import RuleRun
    from holter.rules import Rule
    from holter.schema.table import Table

PARAMETERS = ("other_trials", "baseline")
"""Parameters of rules that name other jobs."""


def _parameter(rule: Rule) -> str | None:
    names = {field.name for field in dataclasses.fields(rule)}
    return next((name for name in PARAMETERS if name in names), None)


def _named(rule: Rule) -> tuple[str, ...]:
    name = _parameter(rule)
    value = getattr(rule, name) if name is not None else None
    return (value,) if isinstance(value, str) else tuple(value or ())


def compared(runs: Iterable[RuleRun], jobs: Sequence[str]) -> None:
    """Set the other jobs of rules that compare jobs and have none given."""
    for run in runs:
        name = _parameter(run.rule)
        if jobs and name is not None and not _named(run.rule):
            run.rule = dataclasses.replace(run.rule, **{name: ",".join(jobs)})


def baselines(
    runs: Sequence[RuleRun],
    folder: JobFolder,
    given: Mapping[str, JobFolder] | None = None,
    *,
    anywhere: bool = True,
) -> dict[str, dict[str, Table]]:
    """Read the tables of the jobs that rules name; a job that is not found is left out.

    Args:
        runs: The rules.
        folder: The job that is judged; other jobs are looked up in its store, or by URL.
        given: Jobs that are already open, by name.
        anywhere: Whether URLs outside of the store are allowed; for rules of a manifest they are not.

    Returns:
        Tables by job and name.
    """
    found: dict[str, dict[str, Table]] = {}
    for run in runs:
        for name in _named(run.rule):
            if (other := (given or {}).get(name) or _job(folder, name, anywhere)) is None:
                continue
            tables = found.setdefault(name, {})
            for table in {text.partition("/")[0] for text in type(run.rule).reads} - tables.keys():
                tables[table] = Trial(other, threads=1).table(table)
    return found


def _job(folder: JobFolder, name: str, anywhere: bool) -> JobFolder | None:
    if not anywhere and JOB_NAME.fullmatch(name) is None:
        return None
    for known in (f"{folder.url.rpartition('/')[0]}/{name}", *([name] if anywhere else [])):
        try:
            return at(known)
        except (JobNotFound, OSError, ValueError):
            continue
    return None
