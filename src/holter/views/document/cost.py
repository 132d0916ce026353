"""Computes the cost of recording: the recorder's time, the agent's CPU, bytes, dropped records, faults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.verdict.evidence import counted
from holter.store.layout import CONTROL
from holter.store.writer import UNWRITTEN
from holter.views.wording import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table
    from holter.store.documents import Document
    from holter.store.trial import Trial
    from holter.views.document.types.job import RecorderFault, RecordingCost

_MOST_FAULTS = 20


def cost(trial: Trial, events: Table, steps: Table, samples: Table) -> RecordingCost:
    """Return the document's `cost` from the job's tables; an unmeasured value is None."""
    kept = [node["cost"] for node in trial.nodes.values() if isinstance(node.get("cost"), dict)]
    files = trial.folder.place.files()
    bytes_ = sum(max(entry.size, 0) for entry in files if entry.key != CONTROL)
    ranks = len(np.unique(steps["rank"])) if steps.rows else 1
    count = steps.rows / ranks
    least_s = int(trial.manifest.get("interval_ms") or 0) / 1e3
    spans = trial.sql("SELECT count(*) AS spans FROM spans")["spans"]
    return {
        "recorder_pct": _recorder_percent(kept, events, steps),
        "agent_cpu_pct": _agent_percent(kept, samples, least_s),
        "bytes": bytes_,
        "bytes_per_step": bytes_ / count if count else None,
        "spans": int(spans[0]),
        "dropped": _dropped(kept, events),
        "faults": _faults(events),
    }


def unwritten(description: Mapping[str, Any]) -> str | None:
    """Explain that the store rejected a part of a described job; None if the store took everything."""
    if "cost" not in description:
        return None  # a trace file was never recorded
    cost = description["cost"]
    faults = [str(f["error"]) for f in cost["faults"] if str(f["where"]).split()[-1:] == ["store"]]
    if not faults or not cost["dropped"]:
        return None
    lost = f"{counted(cost['dropped'], 'record')} {'is' if cost['dropped'] == 1 else 'are'} lost"
    lost += "; all others are stored"
    # The text of the last error counts only if no later attempt succeeded.
    why = next((text for text in faults if not text.endswith(UNWRITTEN)), None)
    if why is None:
        return f"The recording has gaps: the store could not be written for a while, {lost}."
    job, phases = description["job"], description["phases"]
    until = phases["training_loop_end"] if phases else None
    when = f" {duration((until - job['start']) / 1e9)} after the start" if until and job["start"] else ""
    return f"Recording stopped early{when}: the store could not be written ({why}), {lost}."


def details(events: Table, *kinds: str) -> list[Document]:
    """Return the details of events of some kinds, with `time`, `node`, `rank`, `name`; skip damaged ones."""
    found = []
    for row in events.where(np.isin(events["kind"], kinds)).to_rows():
        try:
            detail = json.loads(row["detail"] or "{}")
        except ValueError:
            continue
        if isinstance(detail, dict):
            found.append({**detail, **{column: row[column] for column in ("time", "node", "rank", "name")}})
    return found


def _recorder_percent(kept: list[Document], events: Table, steps: Table) -> float | None:
    """Return the recorder's own time in percent of the loop's, over all ranks; None if unknown."""
    loop = int(steps["duration"].sum()) if steps.rows else 0
    spent = sum(int(node.get("recorder_ns") or 0) for node in kept)
    if not spent:  # the job runs, or its agent was killed: use the last events of its processes
        spent = sum(int(end.get("cost_ns") or 0) for end in details(events, "end"))
    return min(100.0, 100.0 * spent / loop) if spent and loop else None


def _agent_percent(kept: list[Document], samples: Table, least_s: float) -> float | None:
    """Return the CPU time of holter's own processes in percent of a core, the nodes' mean.

    A job that ended before a second sample has no value, because start and end dominate such a time.
    """
    told = [
        100.0 * n["agent_cpu_s"] / n["duration_s"]
        for n in kept
        if n.get("agent_cpu_s") and (n.get("duration_s") or 0) > least_s
    ]
    if told:
        return float(np.mean(told))
    read = samples["value"][samples["metric"] == "agent.cpu"]
    return float(np.mean(read)) if len(read) else None


def _dropped(kept: list[Document], events: Table) -> int | None:
    """Return the number of lost records, rows and files of tensors included; None without a recording."""
    drops = details(events, "dropped")
    tensors = sum(int(drop.get(what) or 0) for drop in drops for what in ("frames", "saves"))
    files: dict[str, int] = {}
    for drop in drops:  # an agent reports its total each time
        files[drop["node"]] = max(files.get(drop["node"], 0), int(drop.get("files") or 0))
    tensors += sum(files.values())
    if kept:
        return tensors + sum(int(node.get("dropped") or 0) for node in kept)
    seen = bool((events["kind"] == "process").any()) if events.rows else False
    lost = tensors + sum(int(drop.get("records") or 0) for drop in drops)
    return lost if seen or lost else None


def _faults(events: Table) -> list[RecorderFault]:
    return [
        {
            "where": str(fault.get("where", fault["name"])),
            "error": str(fault.get("error", "")),
            "time": fault["time"],
            "rank": fault["rank"],
        }
        for fault in details(events, "fault")[:_MOST_FAULTS]
    ]
