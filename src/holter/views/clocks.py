"""Puts the rows of all nodes of a job on one clock, that of the node with the lowest rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.jobs.clock_skew import Skew, clock_skew
from holter.store.clocks import ClockCorrection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.trial import Trial

_MOST_STEPS = 20_000
"""Number of steps whose ends are compared; of a longer job every second or tenth one."""


def skews(trial: Trial, nodes: Sequence[str], device: str | None) -> dict[str, Skew]:
    """Estimate how far the clock of each node is ahead of the first node's.

    On the host a collective ends when its span does; what one rank sends to another is no common event.
    On an accelerator the span ends when the collective is queued; then the ends of steps are compared, and a
    host can be ahead of its device by a step.

    Args:
        trial: A job whose clocks are not corrected.
        nodes: Names of the nodes with ranks, the one with the lowest rank first.
        device: The device of the framework, as in `cuda`.
    """
    listed = ", ".join("'" + node.replace("'", "''") + "'" for node in nodes)
    last = trial.sql("SELECT max(step) AS last FROM steps")["last"]
    stride = max(int(np.nan_to_num(last[0])) // _MOST_STEPS, 1) if len(last) else 1
    some = f"step >= 0 AND step % {stride} = 0 AND node IN ({listed})"
    if device in (None, "cpu"):
        ends = trial.sql(
            "SELECT node, step, max(time + duration) AS ended FROM spans "  # noqa: S608 - quoted above
            f"WHERE phase = 'communication' AND name NOT LIKE 'send%' AND name NOT LIKE 'recv%' "
            f"AND worker = -1 AND {some} GROUP BY node, step"
        )
        return clock_skew(ends, list(nodes))
    ends = trial.sql(
        "SELECT node, step, max(time + duration) AS ended, median(duration) AS typical FROM steps "  # noqa: S608
        f"WHERE communication > 0 AND {some} GROUP BY node, step"
    )
    late_ns = int(np.median(ends["typical"])) if ends.rows else 0
    return clock_skew(ends, list(nodes), source="steps", late_ns=late_ns)


def corrections(found: dict[str, Skew]) -> dict[str, ClockCorrection]:
    """Return the corrections of nodes whose skew is known.

    Ends of steps tell clocks apart only if these differ by more than a step.
    """
    return {
        node: ClockCorrection(one.skew_ns, (one.drift_ppm or 0.0) / 1e6, one.at_ns)
        for node, one in found.items()
        if one.skew_ns is not None
        and one.at_ns is not None
        and (one.source == "collectives" or abs(one.skew_ns) > (one.error_ns or 0))
    }


def aligned(trial: Trial) -> Trial:
    """Correct the clocks of a job's nodes in what is read from now on; returns the same job.

    A job of one node, and nodes whose skew is unknown, are read as they were written.
    """
    if len(trial.nodes) < 2:
        return trial
    ranks = trial.sql("SELECT node, min(rank) AS first FROM spans WHERE rank >= 0 GROUP BY node")
    order = sorted(zip(ranks["first"].tolist(), ranks["node"].tolist(), strict=True))
    if len(order) > 1:
        device = (trial.manifest.get("framework") or {}).get("device")
        trial.correct(corrections(skews(trial, [node for _, node in order], device)))
    return trial
