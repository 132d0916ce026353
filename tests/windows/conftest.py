"""A session in this very process whose steps a test makes, and the page by which it is told of windows."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from holter.recorder import session as sessions
from holter.schema import record, windows


class Training:
    """A process that trains, one step for each call; its journal, and the agent's side of its page."""

    def __init__(self, spool: Path, session: sessions.Session) -> None:
        self.spool = spool
        self.session = session
        self.asked = 0

    def steps(self, count: int) -> None:
        """End so many steps, each of which lasts until what was profiled is written."""
        for _ in range(count):
            self.session.next_step(time.perf_counter_ns())
            self.session.windows.wait()

    def page(self) -> memoryview:
        import mmap

        with open(self.spool / windows.orders_name(self.session.process), "r+b") as file:
            return memoryview(mmap.mmap(file.fileno(), windows.PAGE_SIZE))

    def ask(self, *requests: dict, **more) -> None:
        """Write an order as the agent does."""
        self.asked += 1
        text = json.dumps({"requests": list(requests), **more}).encode()
        page = self.page()
        words = page.cast("i")
        page[windows.TEXT : windows.TEXT + len(text)] = text
        words[windows.LENGTH], words[windows.NUMBER], words[windows.WAKE] = len(text), self.asked, 0

    @property
    def wake(self) -> int:
        return self.page().cast("i")[windows.WAKE]

    def told(self) -> list[dict]:
        """Return what was journaled of windows."""
        self.session.windows.wait()
        journal = self.spool / record.journal_name(self.session.process)
        lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
        found = [line["window"] for line in lines if "window" in line]
        # What is written in the background may be told in another order.
        return sorted(found, key=lambda one: one.get("number", 0))

    def ranges(self) -> list[tuple[str, int, int]]:
        """Return profiler, first and last step of the windows that were."""
        return [
            (one["profiler"], one["first_step"], one["last_step"])
            for one in self.told()
            if "refused" not in one
        ]


class Hours:
    """Clocks that go on only when they are read, by a microsecond, and when a test lets time pass."""

    def __init__(self) -> None:
        self.now, self.wall = time.perf_counter_ns(), time.time_ns() - time.perf_counter_ns()

    def spend(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)

    def perf_counter_ns(self) -> int:
        self.now += 1000
        return self.now

    def time_ns(self) -> int:
        return self.perf_counter_ns() + self.wall

    def time(self) -> float:
        return self.time_ns() / 1e9


@pytest.fixture
def hours(monkeypatch) -> Hours:
    """Windows by time are tried without time: what a busy machine does in between counts for nothing."""
    made = Hours()
    for name in ("perf_counter_ns", "time_ns", "time"):
        monkeypatch.setattr(time, name, getattr(made, name))
    return made


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Return what begins such a training: `train(profile="…")` as the environment says."""
    monkeypatch.delenv("RANK", raising=False)
    begun = []

    def begin(profile: str = "", step: int = 0) -> Training:
        monkeypatch.setenv(windows.ENV_PROFILE, profile)
        session = sessions.Session(str(tmp_path))
        session.install()
        begun.append(session)
        session.go_to(step)
        session.open(recording=True)
        return Training(tmp_path, session)

    yield begin
    for session in begun:
        session.close()
