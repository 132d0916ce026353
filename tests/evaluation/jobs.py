"""Real jobs in a real store, for tests of evaluation: whole, or growing piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.generated.story import Story

from holter.schema.table import Table
from holter.store.job import JobFolder, create
from holter.store.writer import Writer

TABLES = ("samples", "spans", "scalars", "events")


def begin(
    story: Story, store: Any, rules: list[dict[str, Any]] | None = None, name: str | None = None
) -> JobFolder:
    """Create a job that is running and has no rows yet."""
    manifest = {**story.manifest, "name": name or story.name}
    folder = create(
        str(store),
        manifest["name"],
        command=manifest["command"],
        interval_ms=manifest["interval_ms"],
        rules=rules or [],
        now_ns=manifest["start"],
    )
    folder.update(start=manifest["start"])
    for node, facts in story.nodes.items():
        folder.write_node(node, facts)
    return folder


def end(folder: JobFolder, story: Story) -> None:
    """Write down that the job has ended."""
    folder.update(status="Completed", end=story.manifest["end"], exit_code=0)


def write(folder: JobFolder, tables: dict[str, Table]) -> None:
    """Put rows into the store, a file for each node and table."""
    nodes = sorted({node for table in tables.values() for node in table["node"].tolist()})
    for node in nodes:
        writer = Writer(folder, node)
        for name, table in tables.items():
            mine = table.where(table["node"] == node)
            writer.append(name, {k: v for k, v in mine.columns.items() if k != "node"})
        assert writer.close()


def finished(
    story: Story, store: Any, rules: list[dict[str, Any]] | None = None, name: str | None = None
) -> JobFolder:
    """Make a job that has ended."""
    folder = begin(story, store, rules, name)
    write(folder, {table: getattr(story, table) for table in TABLES})
    end(folder, story)
    return folder


def pieces(story: Story, count: int) -> list[dict[str, Table]]:
    """Cut a story as an agent would have written it: each row comes after the moment it ended in."""
    tables = {name: getattr(story, name) for name in TABLES}
    ends = {n: t["time"] + t["duration"] if "duration" in t else t["time"] for n, t in tables.items()}
    first = min(int(e.min()) for e in ends.values())
    last = max(int(e.max()) for e in ends.values())
    edges = np.linspace(first, last + 1, count + 1).astype(np.int64)
    edges[0], edges[-1] = 0, 2**62  # whatever rounding does, no row is left out
    return [
        {name: table.where((ends[name] >= a) & (ends[name] < b)) for name, table in tables.items()}
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
