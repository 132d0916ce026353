"""Metrics exported to monitoring systems: one list of names and values for all exporters."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from holter.analysis.steps.breakdown import breakdown
from holter.analysis.steps.steps import steps as build_steps
from holter.schema.metrics import METRICS
from holter.schema.table import Table
from holter.views.issues import WORST_FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.schema.metrics import Metric
    from holter.store.trial import Trial
    from holter.views.document.types.rules import RuleResult

RECENT_NS = 60_000_000_000
"""The stretch of a running job that one scrape covers."""
_SETTLE_NS = 2_000_000_000
_SILENT_NS = 75_000_000_000
"""A node or table that is so far behind has nothing to say: files are written at least once a minute."""
_STORED_BACK_NS, _SPANS_BACK_NS = 3_600_000_000_000, 120_000_000_000
"""Longest search before a range for the begin of a step that ends in it: among stored steps, among spans."""
_TRAINER = "worker = -1"
_QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A metric as Prometheus and OTLP name it. The name ends as Prometheus' guide asks."""

    name: str
    help: str
    unit: str = ""
    """In UCUM, where the name's ending is what OpenTelemetry's translation makes of it; empty otherwise."""
    kind: Literal["gauge", "counter"] = "gauge"


class Point(NamedTuple):
    """One value of a metric."""

    name: str
    labels: dict[str, str]
    value: float


_ENDINGS = {
    "%": ("percent", "%"),
    "% of a core": ("percent", "%"),
    "bytes": ("bytes", "By"),
    "bytes/s": ("bytes_per_second", "By/s"),
    "operations/s": ("per_second", ""),
    "segments/s": ("per_second", ""),
    "ms": ("milliseconds", "ms"),
    "degrees C": ("celsius", "Cel"),
    "W": ("watts", "W"),
    "MHz": ("megahertz", ""),
}
_STATES = {"bit mask", "code", "0 or 1", "generation", "lanes", "errors", "replays"}
"""Units of which no mean is taken: what was read last counts."""


def _of(metric: Metric) -> Outgoing:
    stem = "holter_" + metric.name.removesuffix("_pct").removesuffix("_bytes").replace(".", "_")
    ending, unit = _ENDINGS.get(metric.unit, ("", ""))
    return Outgoing(f"{stem}_{ending}" if ending else stem, metric.meaning, unit)


_READINGS = {name: _of(metric) for name, metric in METRICS.items() if not name.startswith("cpu.core.")}
"""By the name in table `samples`. Single cores stay in the store: hundreds of series for what one says."""

OUTGOING: dict[str, Outgoing] = {
    one.name: one
    for one in (
        Outgoing("holter_steps_total", "Steps taken.", kind="counter"),
        Outgoing("holter_step_seconds", "Duration of the latest steps, by quantile.", "s"),
        Outgoing("holter_step_share_ratio", "Share of the latest steps in each part, 0 to 1.", "1"),
        Outgoing("holter_issues", "Issues that rules have found, by severity."),
        Outgoing("holter_rule_issues", "Issues that a rule has found, by severity."),
        *_READINGS.values(),
    )
}
"""Every metric by its name, in the order of the export."""


def outgoing(name: str) -> Outgoing:
    """Return what a metric is; one that is not known is a reading of another package's collector."""
    return OUTGOING.get(name) or Outgoing(name, "A reading of another package's collector.")


def complete_until(trial: Trial, now_ns: int) -> int | None:
    """Return the time until which a running job is stored completely; None without recent data."""
    ends = {"samples": "time", "spans": "time + duration"}
    newest: list[int] = []
    for table, end in ends.items():
        query = f"SELECT node, max({end}) AS newest FROM {table} GROUP BY node"  # noqa: S608
        newest += [int(at) for at in trial.sql(query, start_ns=now_ns - 3 * RECENT_NS)["newest"]]
    front = max(newest, default=0)
    if front < now_ns - 3 * RECENT_NS:
        return None
    return min(at for at in newest if at > front - _SILENT_NS) - _SETTLE_NS


class Telemetry:
    """Exports a job stretch by stretch in order of time; earlier steps and issues are only counted."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._taken: dict[int, int] | None = None

    def points(self, start_ns: int, end_ns: int) -> list[Point]:
        """Return the metrics of a time range, and the numbers of issues and steps until its end.

        Gauges are means over the range, or quantiles of the steps that ended in it. Ranges follow one
        another.
        """
        steps = _steps(self.trial, start_ns, end_ns)
        if self._taken is None:
            self._taken = _taken_before(self.trial, start_ns)
        for rank in steps["rank"].tolist():
            self._taken[rank] = self._taken.get(rank, 0) + 1
        told = [Point("holter_steps_total", {}, max(self._taken.values()))] if self._taken else []
        told += _of_steps(steps)
        told += _issues(self.trial.folder.evaluations().get("rules") or [], end_ns)
        return told + list(_readings(self.trial, start_ns, end_ns))


def _steps(trial: Trial, start: int, end: int) -> Table:
    """Return the steps that ended in a stretch: those stored, and after them what the spans say."""
    ended = f"time + duration < {end}"
    stored = trial.table("steps", start_ns=start - _STORED_BACK_NS, end_ns=end, where=ended)
    ends = stored["time"] + stored["duration"]
    last = {rank: int(ends[stored["rank"] == rank].max()) for rank in np.unique(stored["rank"]).tolist()}
    found = [stored.where(ends >= start)]
    since = max(min(last.values(), default=0), start - _SPANS_BACK_NS)
    spans = trial.table("spans", start_ns=since, end_ns=end, where=f"{_TRAINER} AND {ended}")
    if spans.rows:
        fresh = build_steps(spans)
        ends = fresh["time"] + fresh["duration"]
        done = np.array([last.get(rank, 0) for rank in fresh["rank"].tolist()], dtype=np.int64)
        found.append(fresh.where((fresh["time"] >= done) & (ends >= start) & (ends < end)))
    return Table.concat(found)


def _taken_before(trial: Trial, start: int) -> dict[int, int]:
    """Count the steps of each rank that ended before a time."""
    query = "SELECT rank, count(*) AS steps, max(time + duration) AS last FROM steps WHERE time + duration < "
    stored = trial.sql(f"{query}{start} GROUP BY rank", end_ns=start)
    counted = {int(rank): int(n) for rank, n in zip(stored["rank"], stored["steps"], strict=True)}
    # Steps that are not stored yet are counted from their spans; a step in progress does not count.
    done = "".join(
        f" WHEN {rank} THEN {int(last)}" for rank, last in zip(stored["rank"], stored["last"], strict=True)
    )
    since = f"CASE rank{done} ELSE 0 END" if done else "0"
    query = (
        f"SELECT rank, count(DISTINCT step) FILTER (time < {start}) AS steps, "  # noqa: S608
        f"max(step) FILTER (time < {start}) AS last, min(step) FILTER (time + duration >= {start}) AS next "
        f"FROM spans WHERE {_TRAINER} AND step >= 0 AND time >= {since} GROUP BY rank"
    )
    fresh = trial.sql(query, start_ns=min((int(last) for last in stored["last"]), default=0))
    for row in fresh.to_rows():
        goes_on = row["steps"] > 0 and row["last"] == row["next"]
        counted[row["rank"]] = counted.get(row["rank"], 0) + int(row["steps"]) - goes_on
    return counted


def _of_steps(steps: Table) -> Iterator[Point]:
    if not steps.rows:
        return
    for quantile, seconds in zip(
        _QUANTILES, np.quantile(steps["duration"] / 1e9, _QUANTILES).tolist(), strict=True
    ):
        yield Point("holter_step_seconds", {"quantile": str(quantile)}, seconds)
    for part, share in breakdown(steps, np.ones(steps.rows, bool)).items():
        yield Point("holter_step_share_ratio", {"part": part}, share / 100)


def _issues(rules: list[RuleResult], end: int) -> Iterator[Point]:
    """Count the issues that began before a time; one without a time counts always."""
    counted: Counter[str] = Counter(dict.fromkeys(WORST_FIRST, 0))
    by_rule = Counter[tuple[str, str]]()
    for rule in rules:
        for issue in rule["issues"]:
            if (issue.get("time_start") or 0) < end:
                by_rule[rule["name"], issue["severity"]] += 1
                counted[issue["severity"]] += 1
    for severity, count in counted.items():
        yield Point("holter_issues", {"severity": severity}, count)
    for (name, severity), count in by_rule.items():
        yield Point("holter_rule_issues", {"rule": name, "severity": severity}, count)


def _readings(trial: Trial, start: int, end: int) -> Iterator[Point]:
    """Return the mean of every series of readings over a stretch; of states the last."""
    query = (
        "SELECT node, metric, coalesce(device, '') AS device, avg(value) AS mean, "  # noqa: S608
        "arg_max(value, time) AS last FROM samples "
        f"WHERE time >= {start} AND time < {end} AND NOT isnan(value) "
        "AND NOT starts_with(metric, 'cpu.core.') GROUP BY ALL ORDER BY ALL"
    )
    for row in trial.sql(query, start_ns=start, end_ns=end).to_rows():
        name = row["metric"]
        state = name in METRICS and METRICS[name].unit in _STATES
        labels = {"node": row["node"]} | ({"device": row["device"]} if row["device"] else {})
        told = _READINGS[name].name if name in _READINGS else "holter_" + re.sub(r"\W+", "_", name)
        yield Point(told, labels, float(row["last" if state else "mean"]))
