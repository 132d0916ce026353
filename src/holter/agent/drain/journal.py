"""Reads the journals, in which each process of the job writes facts about itself."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from holter.schema.masking import masked_in
from holter.schema.table import NameCodes

if TYPE_CHECKING:
    from pathlib import Path

    from holter.agent.drain.clock import Clock
    from holter.agent.drain.heads import HeadPage
    from holter.store.documents import Document

MAX_LINE = 1 << 20
"""A longer line is damaged."""
_CHUNK = 4 << 20
RECENT_STEPS = 200
MAX_FAULTS = 100
MAX_NAME = 65_535
_NUMBERS = {
    "rank": 2**31 - 1,
    "world_size": 2**31 - 1,
    "worker": 2**15 - 1,
    "stacks_signal": 64,
}
"""Numbers in a process's facts, and their largest valid values."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One row for the table `events`."""

    time: int
    """Wall ns."""
    rank: int
    kind: str
    name: str
    detail: Document


class FaultCount(TypedDict):
    """A fault of the agent or the recorder, and how often it occurred."""

    where: str
    error: str
    count: int


def count_fault(faults: list[FaultCount], where: str, error: str) -> bool:
    """Count a fault; return whether the list has a new entry."""
    for known in faults:
        if (known["where"], known["error"]) == (where, error):
            known["count"] += 1
            return False
    if len(faults) >= MAX_FAULTS:
        return False
    faults.append({"where": where, "error": error, "count": 1})
    return True


@dataclass(slots=True)
class Process:
    """All that is known of one process that records."""

    key: str
    pid: int
    started: int
    """Monotonic ns."""
    first_seen: int
    """Monotonic ns, by the agent."""
    role: str = "trainer"
    worker: int = -1
    parent: str | None = None
    rank: int | None = None
    assigned: int | None = None
    """The rank the agent gave it, as long as it does not know its own."""
    world_size: int | None = None
    stacks_signal: int | None = None
    run: str | None = None
    """Name of the run of a controller that starts its workers again when one fails, such as Ray Train's."""
    names: dict[int, int] = field(default_factory=dict)
    """Ids of names, and where the text is in `Facts.texts`."""
    exception: Document | None = None
    end: Document | None = None
    ticks: int | None = None
    """Start in clock ticks, to know a reused pid; None until it was found in /proc."""
    died: int | None = None
    """Monotonic ns at which it was found dead."""
    checked: int = 0
    """Monotonic ns at which it was last found alive."""
    last_progress: int = 0
    """Monotonic ns at which the agent last saw a record that means work was done."""
    steps: int = 0
    last_step: int = -1
    trains: bool = False
    """Whether it has taken a step that trains."""
    begun: int = 0
    """Monotonic ns at which the newest finished piece of training in the loop's thread began."""
    durations: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    """Of the newest steps, ns."""
    records: int = 0
    dropped: int = 0
    cost_ns: int = 0
    last_open: list[dict[str, str | int]] = field(default_factory=list)
    """Spans open in the loop's thread when it was last looked at, outermost first."""
    last_phase: str | None = None
    last_head_step: int = -1
    loop_thread: int = 0
    """The thread that ended the newest step; before the first, the one that trained last."""
    loop_head: HeadPage | None = None
    """The head page of the loop's thread when it was last looked at."""

    @property
    def known_rank(self) -> int:
        """Its own rank, else the one that the agent gave it; -1 for an unknown rank."""
        ranks = (self.rank, self.assigned, -1)
        return next(rank for rank in ranks if rank is not None)

    @property
    def is_trainer(self) -> bool:
        """Whether it trains; a launcher that only says how it failed does not."""
        return self.role == "trainer"

    @property
    def is_worker(self) -> bool:
        """Whether it is a data-loader worker."""
        return self.role == "worker"

    @property
    def ended_well(self) -> bool:
        """Whether it said that it ends, and nothing of an exception."""
        return self.end is not None and self.exception is None


class JournalReader:
    """The journal of one process, read as far as it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._rest = b""

    def lines(self, *, final: bool = False) -> list[Document]:
        """Return the new lines; an incomplete line waits for its end, and is dropped in the last call."""
        found = []
        try:
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                data = file.read(_CHUNK)
        except OSError:
            data = b""
        self._offset += len(data)
        *complete, self._rest = (self._rest + data).split(b"\n")
        if final and self._rest:
            complete.append(self._rest)
            self._rest = b""
        if len(self._rest) > MAX_LINE:
            self._rest = b""
        for line in complete:
            if not line.strip():
                continue
            try:
                fact = json.loads(line)
            except ValueError:
                fact = None
            if isinstance(fact, dict):
                found.append(fact)
        return found


class SpoolFacts:
    """Turns journal lines into what is known of a process and into events."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.texts: list[str] = [""]
        """Every name once: the workers of one loader name the same stacks."""
        self._codes = NameCodes({"": 0})
        self.framework: Document | None = None
        self.imported: Document | None = None
        """The framework that a process has imported and not used before it failed."""
        self.faults: list[FaultCount] = []
        """Faults of the recorder, in all processes."""

    def take(self, process: Process, line: Document, now: int) -> list[RecordedEvent]:
        """Take one line; unknown kinds become events as they are, so that a newer recorder loses nothing."""
        events = []
        for kind, value in line.items():
            if kind == "name" and isinstance(value, list) and len(value) == 2:
                if not 0 < (number := int(value[0])) <= MAX_NAME:
                    raise ValueError(f"{number} is not the id of a name")
                process.names[number] = self._code(str(value[1]))
                continue
            detail = masked_in(value if isinstance(value, dict) else {"value": value})
            when = detail.get("time")
            time = self._clock.to_wall(when if isinstance(when, int) else now)
            if "time" in detail:
                detail["time"] = time
            name = self._learn(process, kind, detail)
            detail["process"] = process.key
            if kind not in ("framework", "owner") or process.is_trainer:
                events.append(RecordedEvent(time, process.known_rank, kind, name, detail))
        return events

    def _code(self, text: str) -> int:
        code = self._codes[text]
        if code == len(self.texts):
            self.texts.append(text)
        return code

    def _learn(self, process: Process, kind: str, detail: Document) -> str:
        """Keep what concerns the process itself; return the name of the event."""
        if kind in ("process", "rank"):
            _identify(process, detail)
            return process.key if kind == "process" else str(process.rank)
        if kind == "framework":
            if detail.pop("used", True):
                self.framework = self.framework or dict(detail)
            else:
                self.imported = self.imported or dict(detail)
            return str(detail.get("name", ""))
        if kind == "exception":
            if process.exception is None or process.exception.get("time", 0) <= detail.get("time", 0):
                process.exception = dict(detail)
            return str(detail.get("type", ""))
        if kind == "fault":
            where = str(detail.get("where", ""))
            count_fault(self.faults, where, str(detail.get("error", "")))
            return where
        if kind == "end":
            process.end = dict(detail)
            process.cost_ns = max(process.cost_ns, int(detail.get("cost_ns") or 0))
            return process.key
        if kind in ("nonfinite", "dropped"):
            return str(detail.get("name") or detail.get("what") or "")
        return str(detail.get("index", "")) if kind == "loader" else ""


def _identify(process: Process, detail: Document) -> None:
    """Take what a process says it is; raises `ValueError` or `TypeError` for what no process can be."""
    for name, most in _NUMBERS.items():
        if detail.get(name) is not None:
            if not 0 <= (number := int(detail[name])) <= most:
                raise ValueError(f"{name} {number} of process {process.key} is out of range")
            setattr(process, name, number)
    process.role = str(detail.get("role") or process.role)
    process.parent = str(detail["parent"]) if detail.get("parent") else process.parent
    process.run = str(detail["run"]) if detail.get("run") else process.run
    if detail.get("argv"):
        detail["argv"] = [str(word) for word in detail["argv"]]
