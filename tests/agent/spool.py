"""Write a spool as a training process does, record by record: what the drain is tested on."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from holter.agent.machine.procfs import TICKS, stat
from holter.schema import record
from holter.schema.phases import Mode, Phase

NAN = float("nan")


def started_of(pid: int) -> int:
    """Monotonic ns of a process's start (as far as ticks tell)."""
    return int(stat(pid).started / TICKS * 1e9)


class Writer:
    """One process's side of a spool, one thread."""

    def __init__(
        self, spool: Path, *, pid: int | None = None, segment_records: int = record.SEGMENT_RECORDS, **facts
    ):
        self.spool = spool
        self.pid = os.getpid() if pid is None else pid
        self.started = time.monotonic_ns() + facts.pop("salt", 0)
        self.key = f"{self.pid}-{self.started}"
        self.segment_records = segment_records
        self.written = 0
        self.names: dict[str, int] = {}
        self.journal(
            process={
                "pid": self.pid,
                "ppid": 1,
                "started": self.started,
                "wall": time.time_ns(),
                "rank": None,
                "local_rank": None,
                "world_size": None,
                "role": "trainer",
                "worker": None,
                "parent": None,
                "argv": ["train.py"],
                "executable": "python",
                "python": "3.11.7",
                "stacks_signal": None,
                **facts,
            }
        )

    def journal(self, **line) -> None:
        with open(self.spool / record.journal_name(self.key), "ab") as file:
            file.write(json.dumps(line).encode() + b"\n")

    def name(self, text: str) -> int:
        if text not in self.names:
            self.names[text] = len(self.names) + 1
            self.journal(name=[self.names[text], text])
        return self.names[text]

    def head(self, *, step=0, dropped=0, cost=0, open_=(), thread=0) -> None:
        words = [0] * (record.HEAD_SIZE // 8)
        words[0], words[1] = record.HEAD_MAGIC, record.SPOOL_VERSION
        words[record.HEAD_STEP], words[record.HEAD_DROPPED] = step, dropped
        words[record.HEAD_THREAD], words[record.HEAD_COST] = self.pid, cost
        for depth, (begin, phase, name) in enumerate(open_):
            words[record.HEAD_OPEN + 2 * depth] = begin
            words[record.HEAD_OPEN + 2 * depth + 1] = self.name(name) << 8 | phase
        data = b"".join(word.to_bytes(8, "little", signed=True) for word in words)
        (self.spool / record.head_name(self.key, thread)).write_bytes(data)

    def put(
        self,
        phase: int,
        begin: int,
        duration: int,
        *,
        step=0,
        name="",
        value=NAN,
        mode=Mode.TRAIN,
        thread=0,
        raw=None,
    ):
        number, at = divmod(self.written, self.segment_records)
        path = self.spool / record.segment_name(self.key, thread, number)
        if not path.exists():
            with open(path, "wb") as file:
                file.truncate(record.SEGMENT_RECORDS * record.RECORD_SIZE)
        data = record.RECORD.pack(begin, duration, value, step, self.name(name) if name else 0, mode, phase)
        with open(path, "r+b") as file:
            file.seek(at * record.RECORD_SIZE)
            file.write(data if raw is None else raw)
        self.written += 1

    def steps(self, count: int, *, first=0, duration=10_000_000) -> None:
        """Write so many steps, each with a wait for data and a forward pass in it."""
        begin = time.monotonic_ns() - count * duration
        for i in range(count):
            at = begin + i * duration
            self.put(Phase.DATA_LOADING, at, duration // 2, step=first + i, value=0)
            self.put(Phase.FORWARD, at + duration // 2, duration // 4, step=first + i, name="Net")
            self.put(Phase.STEP, at, duration, step=first + i)
            self.put(Phase.SCALAR, at + duration, 0, step=first + i, name="loss", value=1.0 / (first + i + 1))
