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
    lines = [
        "# What is recorded",
        "",
        "Written by `python -m holter.schema`; a test compares this page with the code.",
        "",
        f"Version {SCHEMA_VERSION} of the tables. Times are integer nanoseconds, sizes bytes, shares percent from 0 to 100. "
        "A reading that could not be had is absent, never 0.",
        "",
        "## Tables",
        "",
        "Files do not hold the column `node`: their path does, and readers add it.",
    ]
    for table in TABLES.values():
        lines += [
            "",
            f"### {table.name}",
            "",
            table.meaning,
            "",
            "| column | type | unit | meaning |",
            "|---|---|---|---|",
        ]
        lines += [f"| `{c.name}` | {c.type} | {c.unit} | {c.meaning} |" for c in table.columns]
    lines += [
        "",
        "## Phases",
        "",
        "What a span is. The number stands in the spool, the name in the tables.",
        "",
    ]
    lines += ["| phase | number |", "|---|---|"]
    lines += [f"| `{phase.name.lower()}` | {phase.value} |" for phase in Phase]
    lines += [
        "",
        f"A step's wall time is split into: {_listed(BREAKDOWN)}. They exclude one another and add up to it.",
        f"Data loading has the stages {_listed(STAGES)}; other callables keep their own names.",
        f"A job has the phases {_listed(JOB_PHASES)}.",
        f"Modes: {_listed(mode.name.lower() for mode in Mode)}.",
        "",
        "## System metrics",
        "",
        f"Sampled every {DEFAULT_INTERVAL_MS} ms unless told otherwise; allowed are {', '.join(map(str, INTERVALS_MS))} ms. "
        "A rate needs two readings, so its first value is absent.",
        "",
        "| metric | unit | kind | per device | meaning |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{m.name}` | {m.unit} | {'rate' if m.rate else 'gauge'} | {'yes' if m.per_device else ''} | {m.meaning} |"
        for m in METRICS.values()
    ]
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(page(), end="")
