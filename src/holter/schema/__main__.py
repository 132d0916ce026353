"""Print the reference page of everything that is recorded: `python -m holter.schema > docs/reference/schema.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.metrics import DEFAULT_INTERVAL_MS, INTERVALS_MS, METRICS
from holter.schema.phases import BREAKDOWN, JOB_PHASES, STAGES, Mode, Phase
from holter.schema.tables import SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable


def page() -> str:
    """Write the reference page, in Markdown."""
    tables = "".join(
        f"\n### {table.name}\n\n{table.meaning}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n"
        + "".join(f"| `{c.name}` | {c.type} | {c.unit} | {c.meaning} |\n" for c in table.columns)
        for table in TABLES.values()
    )
    phases = "".join(f"| `{phase.name.lower()}` | {phase.value} |\n" for phase in Phase)
    metrics = "".join(
        f"| `{m.name}` | {m.unit} | {'rate' if m.rate else 'gauge'} | {'yes' if m.per_device else ''} | {m.meaning} |\n"
        for m in METRICS.values()
    )
    return f"""# What is recorded

Written by `python -m holter.schema`; a test compares this page with the code.

Version {SCHEMA_VERSION} of the tables. Times are integer nanoseconds, sizes bytes, shares percent from 0 to 100. A reading that could not be had is absent, never 0.

## Tables

Files do not hold the column `node`: their path does, and readers add it.
{tables}
## Phases

What a span is. The number stands in the spool, the name in the tables.

| phase | number |
|---|---|
{phases}
A step's wall time is split into: {_listed(BREAKDOWN)}. They exclude one another and add up to it.
Data loading has the stages {_listed(STAGES)}; other callables keep their own names.
A job has the phases {_listed(JOB_PHASES)}.
Modes: {_listed(mode.name.lower() for mode in Mode)}.

## System metrics

Sampled every {DEFAULT_INTERVAL_MS} ms by default; allowed are {", ".join(map(str, INTERVALS_MS))} ms. A rate needs two readings, so its first value is absent.

| metric | unit | kind | per device | meaning |
|---|---|---|---|---|
{metrics}"""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(page(), end="")
