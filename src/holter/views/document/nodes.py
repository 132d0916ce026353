"""Describes the nodes of a job: hardware, ranks, exit status and clock skew."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from holter.analysis.grouping import groups
from holter.views.clocks import skews

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table
    from holter.store.documents import Document
    from holter.store.trial import Trial
    from holter.views.document.types.job import NodeClock, NodeFacts


def nodes_of(
    trial: Trial,
    nodes: Mapping[str, Document],
    ranked: Table,
    device: str | None,
) -> list[NodeFacts]:
    """Return the document's `nodes`.

    `ranked` holds `rank` and `node`: table `steps`, or table `events` of a job without steps. `device` is
    that of the framework, as in `cuda`.
    """
    ranks: dict[str, list[int]] = {name: [] for name in nodes}
    for name, rank in sorted(groups(ranked["node"], ranked["rank"])):
        if rank >= 0 and name in ranks:
            ranks[name].append(rank)
    read = _gpus_read(trial) if any(facts.get("gpus") is None for facts in nodes.values()) else {}
    described: list[NodeFacts] = []
    for name, facts in nodes.items():
        gpus = facts.get("gpus")
        if gpus is None and name in read:
            gpus = [{"name": None, "memory_bytes": None}] * read[name]
        described.append(
            {
                "node": name,
                "cpus": facts.get("cpus"),
                "memory_bytes": facts.get("memory_bytes"),
                "gpus": gpus,
                "ranks": ranks[name],
                "status": facts.get("status"),
            }
        )
    order = sorted((name for name in nodes if ranks[name]), key=lambda name: ranks[name][0])
    if len(order) > 1:
        found = skews(trial, order, device)
        for node in described:
            if (skew := found.get(node["node"])) is not None:
                node["clock"] = cast("NodeClock", skew.to_json())
    return described


def _gpus_read(trial: Trial) -> dict[str, int]:
    """Return the number of sampled GPUs of each node: nodes of imported jobs do not list their GPUs."""
    found = trial.sql(
        "SELECT node, count(DISTINCT device) AS gpus FROM samples WHERE metric LIKE 'gpu.%' GROUP BY node"
    )
    return {str(row["node"]): int(row["gpus"]) for row in found.to_rows()}
