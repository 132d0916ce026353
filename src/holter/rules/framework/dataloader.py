"""Dataloader: the number of data-loader processes does not fit the machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.rules import Issues, Lookback, Rule, Table, Window, parameter
from holter.rules.engine import quantile_sketch as _sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


SECOND = 1_000_000_000
_LATE_S = 60
"""Only the last seconds of a fetch count, up to this number; a second is complete after this time."""
_MIN_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataloader(Rule):
    """The number of processes that load data is far from the number of cores.

    By itself this means little, so the modern profile requires more: too few only if training waits for
    data, too many only if processes queue for the CPU.
    """

    reads = (
        "steps",
        "spans/fetch",
        "spans/data_loading",
        "events/loader",
        "samples/cpu.load1",
    )
    severity = "info"
    formula = (
        "median number of loading processes / cores < min_threshold or > max_threshold; with `need` also: "
        "data loading > 20 % of the steps, or load average > cores"
    )
    advice = "Change num_workers; the rule DataloaderBottleneck estimates how many workers hide the loading."
    packs = ("sagemaker",)
    every_s = 60.0
    lookback = Lookback(steps=200, seconds=120.0)

    min_threshold: float = parameter(25.0, classic=70.0, low=0, unit="% of cores")
    """Fewer loading processes than this share of the cores are too few."""
    max_threshold: float = parameter(150.0, classic=200.0, low=0, unit="% of cores")
    """More loading processes than this share of the cores are too many."""
    patience: int = parameter(30, classic=10, low=0, unit="s")
    """The rule judges only after more seconds with loading than this."""
    need: bool = parameter(True, classic=False)
    """Report only when training loses time because of it."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by itself: cores are not shared."""
        nodes: dict[str, dict[str, Any]] = window.state.setdefault("nodes", {})
        _learn(window, nodes)
        if not nodes:
            return window.insufficient("no_input", "no batch was loaded by a data loader")
        details: dict[str, Callable[[], dict[str, Any]]] = {}
        loader: dict[str, Any] = window.state.get("loader", {})
        for node in sorted(nodes):
            known = nodes[node]
            seconds, median = _middle(known)
            cores = float(window.job.nodes.get(node, {}).get("cpus") or 0)
            details[node] = partial(_details, cores or None, median, loader, known["waits"])
            if seconds <= self.patience:
                text = f"data was loaded on {node or 'the node'} in too few seconds"
                window.insufficient("patience_not_reached", text, have=seconds, need=self.patience + 1)
                continue
            if cores <= 0:
                window.insufficient("no_input", f"the number of cores of {node or 'the node'} is unknown")
                continue
            window.judged(seconds)
            few = median < cores * self.min_threshold / 100
            many = median > cores * self.max_threshold / 100
            if (few and self._waits(window, node)) or (many and self._queues(window, node, cores)):
                yield self.issue(
                    f"{median} processes load data on {cores:.0f} cores, too {'few' if few else 'many'}",
                    code="too_few" if few else "too_many",
                    node=node or None,
                    time_end=window.end,
                    evidence={"processes": median, "cores": cores, "seconds": seconds},
                )
        window.hand_over(lambda: _told(details))

    def _waits(self, window: Window, node: str) -> bool:
        steps = window.steady
        steps = steps.where(steps["node"] == node)
        wall = int(steps["duration"].sum())
        waited = 5 * int(steps["data_loading"].sum()) > wall and steps.rows >= _MIN_STEPS
        return not self.need or waited

    def _queues(self, window: Window, node: str, cores: float) -> bool:
        loads = [s.value for (where, _), s in window.series("cpu.load1").items() if where == node]
        return not self.need or (bool(loads) and float(np.median(np.concatenate(loads))) > cores)


def _learn(window: Window, nodes: dict[str, dict[str, Any]]) -> None:
    """Count for each second which processes built a batch; seconds that are complete become counts."""
    built, waited = (window.spans_of(phase, new=True) for phase in ("fetch", "data_loading"))
    built, waited = built.where(built["duration"] >= 0), waited.where(waited["worker"] == -1)
    for node in sorted({*built["node"].tolist(), *waited["node"].tolist()}):
        fetches, waits = (table.where(table["node"] == node) for table in (built, waited))
        if not fetches.rows and node not in nodes:
            continue
        known = nodes.setdefault(node, {"open": {}, "counts": {}, "waits": {}})
        _sketch.add(known["waits"], waits["duration"] / 1e6)
        for second, who in _presence(fetches):
            present = known["open"].setdefault(str(second), [])
            if who not in present:
                present.append(who)
    complete = window.end // SECOND - _LATE_S
    for known in nodes.values():
        for second in [second for second in known["open"] if int(second) < complete]:
            count = str(len(known["open"].pop(second)))
            known["counts"][count] = known["counts"].get(count, 0) + 1
    for row in window.new("events").to_rows():
        if row["kind"] == "loader" and (detail := _loader(row["detail"])):
            window.state.setdefault("loader", detail)


def _presence(fetches: Table) -> set[tuple[int, str]]:
    """Return which process (rank and worker) was at work in which second."""
    last = (fetches["time"] + fetches["duration"]) // SECOND
    first = np.maximum(fetches["time"] // SECOND, last - _LATE_S + 1)
    count = last - first + 1
    row = np.repeat(np.arange(fetches.rows), count)
    second = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    rank, worker = fetches["rank"][row].astype(np.int64), fetches["worker"][row].astype(np.int64)
    present = np.unique(np.stack([second, rank, worker]), axis=1)
    return {(at, f"{rank}/{worker}") for at, rank, worker in present.T.tolist()}


def _middle(known: dict[str, Any]) -> tuple[int, int]:
    """Return how many seconds had loading, and the median of their processes; those still open count too."""
    seconds = {int(count): number for count, number in known["counts"].items()}
    for present in known["open"].values():
        seconds[len(present)] = seconds.get(len(present), 0) + 1
    total = sum(seconds.values())
    if not total:
        return 0, 0
    counts = sorted(seconds)
    passed = np.cumsum([seconds[count] for count in counts])
    low, high = (
        counts[int(np.searchsorted(passed, at, side="right"))] for at in ((total - 1) // 2, total // 2)
    )
    return total, (low + high) // 2


def _told(details: Mapping[str, Callable[[], dict[str, Any]]]) -> dict[str, Any]:
    told = {node: one() for node, one in details.items()}
    return next(iter(told.values())) if len(told) == 1 else {"nodes": told}


def _details(
    cores: float | None, median: int, loader: Mapping[str, Any], waits: dict[str, Any]
) -> dict[str, Any]:
    points = {f"p{q}": _sketch.quantile(waits, q / 100) for q in (25, 50, 95)}
    return {
        "cores": cores,
        "dataloaders": median,
        "pin_memory": loader.get("pin_memory"),
        "num_workers": loader.get("workers"),
        "prefetch": loader.get("prefetch_factor"),
        "dataloading_time_ms": {**points, "max": waits.get("max"), "histogram": _sketch.histogram(waits)},
    }


def _loader(text: str) -> dict[str, Any]:
    try:
        detail = json.loads(text or "{}")
    except ValueError:
        return {}
    return detail if isinstance(detail, dict) else {}
