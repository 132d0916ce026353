"""Dataloader: the number of data-loader processes does not fit the machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from holter.rules import Issues, Lookback, Rule, Table, Window, parameter, rule_class
from holter.rules.engine import quantile_sketch as _sketch
from holter.rules.patterns.event_details import details_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


SECOND = 1_000_000_000
_LATE_S = 60
"""Only the last seconds of a fetch count, up to this number; a second is complete after this time."""
_MIN_STEPS = 50


class _Node(TypedDict):
    """The loading of one node."""

    open: dict[str, list[str]]
    """Second → processes at work, for seconds that are not complete."""
    counts: dict[str, int]
    """Number of processes at work → seconds."""
    waits: _sketch.QuantileSketch


@rule_class
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
        nodes: dict[str, _Node] = window.state.setdefault("nodes", {})
        _learn(window, nodes)
        if not nodes:
            return window.insufficient("no_input", "no batch was loaded by a data loader")
        details: dict[str, Callable[[], dict[str, object]]] = {}
        loader = window.state.get("loader", {})
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
        window.hand_over(lambda: _of_nodes({node: one() for node, one in details.items()}))

    def _waits(self, window: Window, node: str) -> bool:
        steps = window.steady
        steps = steps.where(steps["node"] == node)
        wall = int(steps["duration"].sum())
        waited = 5 * int(steps["data_loading"].sum()) > wall and steps.rows >= _MIN_STEPS
        return not self.need or waited

    def _queues(self, window: Window, node: str, cores: float) -> bool:
        loads = [s.value for (where, _), s in window.series("cpu.load1").items() if where == node]
        return not self.need or (bool(loads) and float(np.median(np.concatenate(loads))) > cores)


def _learn(window: Window, nodes: dict[str, _Node]) -> None:
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
        for passed in [second for second in known["open"] if int(second) < complete]:
            count = str(len(known["open"].pop(passed)))
            known["counts"][count] = known["counts"].get(count, 0) + 1
    for _, detail in details_of(window.new("events"), "loader"):
        if detail:
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


def _middle(known: _Node) -> tuple[int, int]:
    """Return how many seconds had loading, and the median of their processes; those still open count too."""
    present = [*map(int, known["counts"]), *map(len, known["open"].values())]
    seconds = np.repeat(present, [*known["counts"].values(), *(1 for _ in known["open"])])
    return len(seconds), int(np.median(seconds)) if len(seconds) else 0


def _of_nodes(details: dict[str, dict[str, object]]) -> dict[str, object]:
    return next(iter(details.values())) if len(details) == 1 else {"nodes": details}


def _details(
    cores: float | None, median: int, loader: Mapping[str, object], waits: _sketch.QuantileSketch
) -> dict[str, object]:
    points = {f"p{q}": _sketch.quantile(waits, q / 100) for q in (25, 50, 95)}
    return {
        "cores": cores,
        "dataloaders": median,
        "pin_memory": loader.get("pin_memory"),
        "num_workers": loader.get("workers"),
        "prefetch": loader.get("prefetch_factor"),
        "dataloading_time_ms": {**points, "max": waits.get("max"), "histogram": _sketch.histogram(waits)},
    }
