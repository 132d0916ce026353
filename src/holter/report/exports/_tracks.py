"""Assigns numbers and names to the processes, threads, devices and streams of a merged timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holter.report.exports import _merged

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.schema.table import Table

_FIRST_OWN = 1 << 22
"""First number for processes without a unique number of their own; no system uses such numbers."""
_GROUPS = ("samples", "phases", "host", "device")


class TrackRow(NamedTuple):
    """One row of the timeline."""

    process: int
    thread: int


class Named(NamedTuple):
    """Name and position of a process or of one of its rows."""

    process: int
    thread: int | None
    """None for the process itself."""
    name: str
    position: int


class Tracks:
    """Gives out numbers: those that the trace has, as long as no two processes of the job share them.

    `fresh` collects new names since it was emptied last, because a writer needs names before rows.
    """

    def __init__(self, tracks: Table) -> None:
        self.fresh: list[Named] = []
        self._processes: dict[tuple[object, ...], int] = {}
        self._taken: set[int] = set()
        self._rows: dict[tuple[object, ...], TrackRow] = {}
        self._names: dict[tuple[object, ...], tuple[str, int]] = {}
        self._homes: dict[tuple[str, int, int], int] = {}
        self._main: dict[tuple[str, int], int] = {}
        for row in tracks.to_rows():
            where = (row["node"], row["rank"])
            called = (row["name"], row["position"])
            if row["kind"] in ("device", "stream"):
                number = row["thread"] if row["kind"] == "stream" else None
                self._names[(*where, "device", row["device"], number)] = called
                continue
            process = row["process"]
            self._names[(*where, "host", process, row["thread"] if row["kind"] == "thread" else None)] = (
                called
            )
            if row["kind"] == "thread":
                self._homes[(*where, row["thread"])] = process
            self._main.setdefault(where, process)

    def rows(self, name: str, table: Table) -> list[TrackRow]:
        """Return the row of each slice of a table."""
        place: Callable[..., TrackRow] = self.thread
        columns: tuple[str, ...] = ("node", "rank", "thread")
        if name in ("kernels", "memory_operations"):
            place, columns = self.stream, ("node", "rank", "device", "stream")
        elif name == "spans":
            place, columns = self.phases, ("node", "rank", "worker", "thread")
        return [place(*key) for key in _merged.columns(table, *columns)]

    def thread(self, node: str, rank: int, thread: int) -> TrackRow:
        """Return the row of a thread's operators."""
        process = self._homes.get((node, rank, thread), self._main.get((node, rank), -1))
        return self._row(node, rank, "host", process, thread)

    def stream(self, node: str, rank: int, device: int, stream: int) -> TrackRow:
        """Return the row of a stream of an accelerator."""
        return self._row(node, rank, "device", device, stream)

    def phases(self, node: str, rank: int, worker: int, thread: int) -> TrackRow:
        """Return the row of the recorded phases of a thread or of a data-loader worker."""
        return self._row(node, rank, "phases", -1, (worker + 1) * 1000 + thread)

    def counters(self, node: str, rank: int, process: int) -> int:
        """Return the process that counters of a trace belong to."""
        known = process if process >= 0 else self._main.get((node, rank), -1)
        return self._process(node, rank, "host", known)

    def samples(self, node: str) -> int:
        """Return the process that the readings of a node belong to."""
        return self._process(node, -1, "samples", -1)

    def _row(self, node: str, rank: int, group: str, number: int, thread: int) -> TrackRow:
        key = (node, rank, group, number, thread)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = TrackRow(self._process(node, rank, group, number), thread)
            name, position = self._names.get(key, ("", 0))
            self.fresh.append(Named(*row, name or _called(group, thread), position))
        return row

    def _process(self, node: str, rank: int, group: str, number: int) -> int:
        key = (node, rank, group, number)
        process = self._processes.get(key)
        if process is None:
            own = number >= 0 and number not in self._taken
            process = number if own else _FIRST_OWN + len(self._processes)
            self._processes[key] = process
            self._taken.add(process)
            name, _ = self._names.get((*key, None), ("", 0))
            position = (rank + 1) * len(_GROUPS) + _GROUPS.index(group)
            self.fresh.append(Named(process, None, _title(node, rank, group, number, name), position))
        return process


def _called(group: str, thread: int) -> str:
    if group == "phases":
        worker, number = divmod(thread, 1000)
        owner = f"worker {worker - 1}" if worker else "training"
        return f"{owner}, thread {number}" if number else owner
    return f"{'stream' if group == 'device' else 'thread'} {thread}"


def _title(node: str, rank: int, group: str, number: int, name: str) -> str:
    if group == "samples":
        return f"{node}: system"
    own = {"phases": "phases", "device": name or f"GPU {number}", "host": name or "host"}[group]
    return f"rank {rank}: {own} ({node})"
