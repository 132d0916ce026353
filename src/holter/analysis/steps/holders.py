"""Names threads that hold the interpreter, so that the training thread waits, from stack samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.grouping import coded
from holter.analysis.machine.threads import LOOP
from holter.analysis.steps.own_code import MIN_SAMPLES, sampled_line
from holter.schema.phases import HOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.analysis.loading.dataloading import DataLoading
    from holter.analysis.machine.threads import ThreadShares
    from holter.analysis.steps.own_code import OwnCode
    from holter.schema.table import Table

_BLOCKING = ("communication", "checkpoint")
"""Parts in which a training thread is blocked for reasons of their own."""
_LEAST = 1.0
"""Holders of a smaller percentage of the loop are left out."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A Python thread that computes while the training thread needs the interpreter."""

    thread: str
    """`thread metrics`."""
    place: str
    """The function that it runs most of the time, as `name (file:line)`."""
    pct: float
    """Percent of the loop in which the training thread waits for it."""

    @property
    def text(self) -> str:
        """Who holds the interpreter, and where: `thread metrics holds the interpreter: collect (a.py:12)`."""
        return f"{self.thread} holds the interpreter: {self.place}"


def holders(
    spans: Table,
    steps: Table,
    threads: Sequence[ThreadShares],
    own: Sequence[OwnCode],
    split: Mapping[str, float],
    *,
    loading: DataLoading | None,
    device: str | None,
) -> list[Holder]:
    """Return the threads that hold the interpreter, the largest share first.

    Two measurements limit the share: how much of the loop a sampler found the interpreter held, and how much
    of it the kernel saw the training thread blocked, less what it waits for otherwise.

    Args:
        spans: Table `spans`, with the phase loop_stack.
        steps: Table `steps`, those that count.
        threads: What the scheduler says of the training threads.
        own: Functions that run outside all known parts.
        split: Part → percent of the loop.
        loading: The work of data loaders, if there are some.
        device: cpu or cuda, as the framework reports.
    """
    begin, end = int(steps["time"].min()), int((steps["time"] + steps["duration"]).max())
    rows = spans.where((spans["phase"] == "loop_stack") & (spans["value"] == HOLDS))
    rows = rows.where((rows["time"] >= begin) & (rows["time"] < end) & np.isin(rows["rank"], steps["rank"]))
    blocked = [one.blocked_pct for one in threads if one.phase == LOOP]
    if rows.rows < MIN_SAMPLES or not blocked:
        return []
    producers = {one.producer for one in own}
    held: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    names, codes = coded(rows["name"])
    for name, took in zip(names.tolist(), np.bincount(codes, rows["duration"]).tolist(), strict=True):
        thread, _, stack = name.partition(";")
        if stack and thread not in producers:
            function, _, line = sampled_line(stack)[0].rpartition(":")
            held[thread][function][line] += took
    whole = float(steps["duration"].sum())
    shares = {
        name: 100.0 * sum(lines.total() for lines in functions.values()) / whole
        for name, functions in held.items()
    }
    most = float(np.mean(blocked)) - _waits(own, split, loading, device)
    scale = min(1.0, most / sum(shares.values())) if shares else 0.0
    found = [Holder(name, _place(held[name]), scale * share) for name, share in shares.items()]
    return sorted((one for one in found if one.pct >= _LEAST), key=lambda one: (-one.pct, one.thread))


def _waits(
    own: Sequence[OwnCode], split: Mapping[str, float], loading: DataLoading | None, device: str | None
) -> float:
    """Return the percentage of the loop in which the training thread may be blocked without a holder."""
    waits = sum(split.get(part, 0.0) for part in _BLOCKING)
    waits += sum(one.pct for one in own if one.waits_in)
    if loading is None or loading.workers != 0:  # without workers this thread builds the batches
        waits += split.get("data_loading", 0.0)
    if device != "cpu":  # a thread of the device runs the backward pass
        waits += split.get("backward", 0.0)
    return waits


def _place(functions: Mapping[str, Counter[str]]) -> str:
    """Return the function with most of the time, and its line with most of that."""
    function, lines = max(functions.items(), key=lambda item: item[1].total())
    return f"{function}:{lines.most_common(1)[0][0]}"
