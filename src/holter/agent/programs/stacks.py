"""Reads the stack samples that Python programs without an adapter take of themselves."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from holter.schema.programs import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from holter.agent.drain.drain import Drain
    from holter.store.documents import Document
    from holter.store.parquet.columns import Columns

MAX_BYTES = 4 << 20
MOST_TOLD = 8


class _Part(NamedTuple):
    """A file of samples."""

    pid: int
    begin: int
    end: int
    rows: list[tuple[int, int, int, str]]
    """Samples, the time they stand for in ns, the place of the innermost own function, and the stack."""


class ProgramStacks:
    """The samples of all processes: rows for the store, and where each process spends its time."""

    def __init__(self, spool: Path, drain: Drain) -> None:
        self._spool = spool
        self._drain = drain
        self._own: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        """Time by process and by innermost function of its own code, ns."""
        self.cost_ns = 0

    def take(self) -> list[Columns]:
        """Return the rows of all parts that are complete, and remove their files. Raises `OSError`."""
        found = []
        for path in sorted(self._spool.glob(f"*{SUFFIX}")):
            part = self._read(path)
            path.unlink(missing_ok=True)
            if part is None:
                continue
            for _, ns, own, stack in part.rows:
                functions = stack.split(";")
                name = functions[own] if 0 <= own < len(functions) else functions[-1]
                self._own[part.pid][name] += ns
            found.append(self._rows(path, part))
        return found

    def end(self) -> list[Columns]:
        """Return the rows that are left. Raises `OSError`."""
        return self.take()

    def told(self) -> list[Document]:
        """Return the functions of each process that take most of its time."""
        return [
            {
                "pid": pid,
                "sampled_s": sum(times.values()) / 1e9,
                "functions": [
                    {"name": name, "seconds": ns / 1e9}
                    for name, ns in sorted(times.items(), key=lambda one: -one[1])[:MOST_TOLD]
                ],
            }
            for pid, times in self._own.items()
        ]

    def _rows(self, path: Path, part: _Part) -> Columns:
        process = self._drain.processes.get(path.name.partition(".")[0])
        number = len(part.rows)
        return {
            "time": [self._drain.clock.to_wall(part.begin)] * number,
            "duration": [part.end - part.begin] * number,
            "rank": [-1 if process is None else self._drain.ranks.of(process)] * number,
            "step": [-1 if process is None else max(process.last_head_step, process.last_step)] * number,
            "mode": ["global"] * number,
            "phase": ["program"] * number,
            "stack": [stack for *_, stack in part.rows],
            "samples": [count for count, *_ in part.rows],
            "self_time": [ns for _, ns, *_ in part.rows],
        }

    def _read(self, path: Path) -> _Part | None:
        """Return one part; None if the file is not one."""
        try:
            with path.open("rb") as file:
                lines = file.read(MAX_BYTES).decode(errors="replace").splitlines()
            begin, end, cost = map(int, lines[0].split())
            pid = int(path.name.partition("-")[0])
            rows = []
            for line in lines[1:]:
                count, ns, own, stack = line.split(" ", 3)
                rows.append((int(count), int(ns), int(own), stack))
        except (OSError, ValueError, IndexError):
            return None
        self.cost_ns += cost
        return _Part(pid, begin, end, rows) if rows else None
