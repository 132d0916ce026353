"""Reads the tables of profiling windows and imported traces once, whole or for one rank or device."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.busy import activity
from holter.analysis.device.work import device_work
from holter.analysis.intervals import union
from holter.schema.table import NameCodes, Table
from holter.views.document.cost import details

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.device.busy import Activity
    from holter.analysis.intervals import Intervals
    from holter.store.documents import Document
    from holter.store.trial import Trial

_COLUMNS = {
    "kernels": ("time", "duration", "rank", "device", "stream", "name", "kind", "correlation"),
    "launches": ("time", "duration", "rank", "thread", "name", "correlation"),
    "memory_operations": (
        "time", "duration", "rank", "device", "stream", "kind", "memory", "bytes", "correlation",
    ),
    "syncs": ("time", "duration", "rank", "thread", "kind", "name"),
    "operators": ("time", "duration", "rank", "thread", "name", "kind"),
}  # fmt: skip
_KEPT = 16
_OF_DEVICES = ("kernels", "memory_operations")
HOW = (
    "`holter profile JOB --count 3` records operators and kernels of the next steps of a running job, "
    "`holter run --profile-steps 100:103` those of these steps, and `holter import TRACE` reads a trace of "
    "another profiler."
)
"""How to record kernels."""


class ProfiledTables:
    """The tables of windows and traces, whole or of one rank or device only."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._narrowed: dict[tuple[object, ...], dict[str, Table]] = {}

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Kernels, launches, copies, waits and operators of all ranks, and the spans of steps around them."""
        found = {
            name: self._trial.table(name, columns=(*columns, "node")) for name, columns in _COLUMNS.items()
        }
        times = [table["time"] for table in found.values() if table.rows]
        # Of a long job only the steps of its windows: the kernels that a step launched may begin after it.
        within = {
            "start_ns": min(int(time.min()) for time in times) - 60 * 10**9,
            "end_ns": max(int(time.max()) for time in times) + 1,
        } if times else {"start_ns": 0, "end_ns": 0}  # fmt: skip
        columns = ("time", "duration", "rank", "step", "phase", "name")
        found["spans"] = self._trial.table("spans", columns=columns, where="phase = 'step'", **within)
        return found

    @property
    def ran(self) -> bool:
        """Whether an accelerator's work was recorded."""
        return any(self.tables[name].rows for name in _OF_DEVICES)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Rank and device of each accelerator with work."""
        found: set[tuple[int, int]] = set()
        for name in _OF_DEVICES:
            table = self.tables[name]
            pairs = np.unique(np.stack([table["rank"], table["device"]]).astype(np.int64), axis=1)
            found.update(zip(*pairs.tolist(), strict=True))
        return sorted(found)

    @cached_property
    def ranks(self) -> list[int]:
        """Ranks with any row."""
        return sorted({int(rank) for name in _COLUMNS for rank in np.unique(self.tables[name]["rank"])})

    @property
    def devices(self) -> list[int]:
        """Numbers of the devices that ran something, each within its node."""
        return sorted({device for _, device in self.places})

    @cached_property
    def nodes(self) -> dict[int, str]:
        """The node of each rank."""
        found: dict[int, str] = {}
        for name in _OF_DEVICES:
            table = self.tables[name]
            ranks, first = np.unique(table["rank"], return_index=True)
            found |= dict(zip(ranks.tolist(), table["node"][first].tolist(), strict=True))
        return found

    @cached_property
    def windows(self) -> list[Document]:
        """The event of each window: its profiler, steps, rank, start, end, and the reason of a refusal."""
        return details(self._trial.table("events", where="kind = 'window'"), "window")

    @cached_property
    def _open(self) -> dict[int, Intervals]:
        """When windows of operators were open, rank by rank; empty of a job without any, as of a trace."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for one in self.windows:
            begin, end = one.get("begin"), one.get("end")
            if one.get("profiler") == "operators" and isinstance(begin, int) and isinstance(end, int):
                spans.setdefault(one["rank"], []).append((begin, end))
        return {rank: union(*zip(*pairs, strict=True)) for rank, pairs in spans.items()}

    def narrowed(
        self,
        rank: int | None = None,
        device: int | None = None,
        within: tuple[int, int] | None = None,
    ) -> dict[str, Table]:
        """Return the tables of one rank, of one device, of what began in a stretch of time (ns).

        The host's tables are those of the rank. An unknown rank or device raises `ValueError` with the known
        ones.
        """
        for what, number, known in (("rank", rank, self.ranks), ("device", device, self.devices)):
            if number is not None and number not in known:
                listed = ", ".join(map(str, known)) or "none"
                raise ValueError(f"no {what} {number} was profiled; there are: {listed}")
        key = (rank, device, within)
        if key == (None, None, None):
            return self.tables
        if key not in self._narrowed:
            kept = {}
            for name, table in self.tables.items():
                mask = np.ones(table.rows, dtype=bool) if rank is None else table["rank"] == rank
                if device is not None and name in _OF_DEVICES:
                    mask &= table["device"] == device
                if within is not None:
                    mask &= (table["time"] >= within[0]) & (table["time"] < within[1])
                kept[name] = table.where(mask)
            if len(self._narrowed) >= _KEPT:
                self._narrowed.clear()
            self._narrowed[key] = kept
        return self._narrowed[key]

    def activity(self, tables: Mapping[str, Table]) -> dict[tuple[int, int], Activity]:
        """Return the observed and the busy time of each accelerator; a single moment is left out."""
        found = activity(device_work(tables), self._open)
        return {place: one for place, one in found.items() if one.looked.length}

    def annotations(self) -> list[str]:
        """Return the names of all ranges, those that took longest first."""
        operators = self.tables["operators"]
        names = NameCodes()
        code = names.codes(operators["name"])
        total = np.bincount(code, weights=operators["duration"], minlength=len(names))
        marked = np.zeros(len(names), dtype=bool)
        marked[code[operators["kind"] == "annotation"]] = True
        listed = list(names)
        found = [listed[at] for at in np.lexsort((-total, ~marked))]  # what somebody marked before operators
        spans = self._trial.sql(
            "SELECT name, sum(duration) AS total FROM spans WHERE phase = 'annotation' AND name <> '' "
            "GROUP BY name ORDER BY total DESC"
        )
        return list(dict.fromkeys([*map(str, spans["name"].tolist()), *found]))
