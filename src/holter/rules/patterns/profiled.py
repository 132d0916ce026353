"""The steps in which work of accelerators was recorded, device by device.

A profiling window comes once, often for a second: what its steps show is reported at the first look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holter.analysis.intervals import Gaps, Intervals, gaps, measure, union
from holter.analysis.steps.loop_thread import by_loop

if TYPE_CHECKING:
    from holter.rules import Window
    from holter.schema.table import Table

Ints = NDArray[np.int64]

LOOKBACK_S = 300.0
"""How far back profiled work is judged."""
HOW = (
    "open a profiling window with `holter profile JOB` or `holter run --profile-steps`, or `holter import` a "
    "trace of torch.profiler"
)
_ELSEWHERE = ("data_loading", "checkpoint", "eval", "gc", "compile")

_LOADER = "enumerate(DataLoader)"


class Profiled(NamedTuple):
    """One device of one rank."""

    rank: int
    device: int
    node: str
    kernels: Table
    copies: Table
    begin: Ints
    """When each of its steps began, ns."""
    end: Ints

    @property
    def about(self) -> dict[str, str | int]:
        """The device and the time of its steps, for an issue."""
        at = {"time_start": int(self.begin[0]), "time_end": int(self.end[-1])}
        return {"node": self.node, "rank": self.rank, "device": f"gpu{self.device}", **at}

    @property
    def wall(self) -> Ints:
        """How long each step took, ns."""
        return self.end - self.begin

    def within(self, these: Intervals) -> Ints:
        """Return how long a set of intervals overlaps each step, ns."""
        return measure(these, self.begin, self.end)

    def kind(self, kind: str) -> Intervals:
        """Return when kernels of a kind ran: compute or communication."""
        return covered(self.kernels.where(self.kernels["kind"] == kind))

    def idle(self) -> tuple[Gaps, Ints]:
        """Return when the device was idle, and the correlation of the work that ended each gap."""
        begin = np.concatenate([self.kernels["time"], self.copies["time"]])
        length = np.concatenate([self.kernels["duration"], self.copies["duration"]])
        correlation = np.concatenate([self.kernels["correlation"], self.copies["correlation"]])
        found = gaps(begin, begin + length)
        return found, np.asarray(correlation[found.next], dtype=np.int64)


def profiled(window: Window, min_steps: int) -> list[Profiled]:
    """Return each device with kernels in enough steps; without any, report the missing data on the window."""
    kernels = window.kernels
    if not kernels.rows:
        window.insufficient("no_input", f"no kernel was recorded: {HOW}")
        return []
    if window.unchanged("kernels"):
        return []
    found, most = [], 0
    ranks, copies = kernels["rank"], window.memory_operations
    for rank in np.unique(ranks).tolist():
        for device in np.unique(kernels["device"][ranks == rank]).tolist():
            own = kernels.where((ranks == rank) & (kernels["device"] == device))
            moved = copies.where((copies["rank"] == rank) & (copies["device"] == device))
            begin, end = _steps(window.steps.where(window.steps["rank"] == rank), own)
            most = max(most, len(begin))
            if len(begin) >= min_steps:
                node = str(own["node"][0])
                found.append(Profiled(int(rank), int(device), node, own, moved, begin, end))
    if not found:
        text = f"too few profiled steps; {HOW}"
        window.insufficient("too_few_points", text, have=most, need=min_steps)
    return found


def covered(rows: Table) -> Intervals:
    """Return the time that rows with a begin and a duration cover."""
    return union(rows["time"], rows["time"] + rows["duration"])


def elsewhere(window: Window, rank: int) -> Intervals:
    """Return when a rank's training loop loaded data, wrote a checkpoint, evaluated, compiled or collected.

    In traces that holter did not record, loading is recognized by PyTorch's name for it.
    """
    spans = window.spans
    own = (spans["rank"] == rank) & by_loop(spans)
    marked = spans.where(own & np.isin(spans["phase"], _ELSEWHERE))
    operators = window.operators.where(window.operators["rank"] == rank)
    loads = operators.where(np.char.startswith(operators["name"].astype(str), _LOADER))
    begin = np.concatenate([marked["time"], loads["time"]])
    return union(begin, begin + np.concatenate([marked["duration"], loads["duration"]]))


def _steps(steps: Table, kernels: Table) -> tuple[Ints, Ints]:
    """Return begin and end of the steps in which kernels ran.

    Without a table of steps, as in some imported traces, a step ends at the next step's first kernel.
    """
    starts = np.sort(kernels["time"])
    if steps.rows:
        pause = (steps["eval"] > 0) | (steps["checkpoint"] > 0) | (steps["compile"] > 0)
        keep = (steps["duration"] > 0) & ~pause & (steps["mode"] != "eval") & (steps["mode"] != "predict")
        begin = steps["time"][keep].astype(np.int64)
        end = begin + steps["duration"][keep]
        some = np.searchsorted(starts, end) > np.searchsorted(starts, begin)
        order = np.argsort(begin[some], kind="stable")
        return begin[some][order], end[some][order]
    numbers = kernels["step"]
    firsts = [int(kernels["time"][numbers == step].min()) for step in np.unique(numbers[numbers >= 0])]
    edges = np.unique(np.array(firsts, dtype=np.int64))
    return edges[:-1], edges[1:]
