"""Names threads that hold the interpreter, so that the training thread waits, from stack samples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.steps.own_code import COMPREHENSION, MIN_SAMPLES
from holter.schema.phases import HOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.analysis.loading.dataloading import DataLoading
    from holter.analysis.machine.threads import ThreadShares
    from holter.analysis.steps.own_code import OwnCode
    from holter.schema.table import Table

LOOP = "training_loop"
_WAITS = ("communication", "checkpoint")
"""Parts in which a training thread is blocked for reasons of their own."""
_LEAST = 1.0
_LINE = re.compile(r"^(.*) \((.*):(\d+)\)$")


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
    held: dict[str, dict[tuple[str, str], dict[int, int]]] = {}
    for name, duration in zip(rows["name"].tolist(), rows["duration"].tolist(), strict=True):
        thread, *frames = name.split(";")
        match = _LINE.match(frames[-1]) if frames else None
        if match is None or thread in producers:
            continue
        place = COMPREHENSION.sub("", match[1]), match[2]
        lines = held.setdefault(thread, {}).setdefault(place, {})
        lines[int(match[3])] = lines.get(int(match[3]), 0) + duration
    whole = float(steps["duration"].sum())
    shares = {name: 100.0 * _total(places) / whole for name, places in held.items()}
    most = float(np.mean(blocked)) - _waits(own, split, loading, device)
    scale = min(1.0, most / sum(shares.values())) if shares else 0.0
    found = [Holder(name, _place(held[name]), scale * share) for name, share in shares.items()]
    return sorted((one for one in found if one.pct >= _LEAST), key=lambda one: (-one.pct, one.thread))


def _waits(
    own: Sequence[OwnCode], split: Mapping[str, float], loading: DataLoading | None, device: str | None
) -> float:
    """Return the percentage of the loop in which the training thread may be blocked without a holder."""
    waits = sum(split.get(part, 0.0) for part in _WAITS)
    waits += sum(one.pct for one in own if one.waits_in)
    if loading is None or loading.workers != 0:  # without workers this thread builds the batches
        waits += split.get("data_loading", 0.0)
    if device != "cpu":  # a thread of the device runs the backward pass
        waits += split.get("backward", 0.0)
    return waits


def _total(places: Mapping[tuple[str, str], Mapping[int, int]]) -> int:
    return sum(sum(lines.values()) for lines in places.values())


def _place(places: Mapping[tuple[str, str], Mapping[int, int]]) -> str:
    """Return the function with most of the time, and its line with most of that."""
    (function, file), lines = max(places.items(), key=lambda item: sum(item[1].values()))
    return f"{function} ({file}:{max(lines, key=lambda line: lines[line])})"
