"""Rules from outside of holter, good and bad; each runs in a sandbox process."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from holter.rules import Lookback, Rule, Window, parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Good(Rule):
    """Counts the rows it is handed, and finds something in each window with steps."""

    reads = ("steps", "samples/gpu.util", "events")

    threshold: float = parameter(0.0, low=0)
    """Nothing."""

    @property
    def lookback(self) -> Lookback:
        return Lookback(seconds=60.0, steps=50)

    def evaluate(self, window: Window) -> Any:
        print("what a stranger prints goes nowhere")
        seen = window.state.setdefault("seen", {"steps": 0, "readings": 0})
        seen["steps"] += window.new("steps").rows
        seen["readings"] += sum(len(s.time) for s in window.series("gpu.util", new=True).values())
        window.judged(window.steps.rows)
        window.details = {**seen, "last": int(window.steps["step"].max(initial=-1)), "pid": os.getpid()}
        if window.steps.rows:
            yield self.issue("steps there are", rank=0, evidence={"steps": window.steps.rows})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad(Rule):
    """Does at its third look what a rule must not do."""

    reads = ("steps",)

    how: str = parameter("raise", choices=("loop", "exit", "os_exit", "eat", "kill", "raise", "bloat"))
    """What."""

    def evaluate(self, window: Window) -> Any:
        looks = window.state["looks"] = window.state.get("looks", 0) + 1
        window.judged(1)
        if looks >= 3:
            self._misbehave(window)
        yield from ()

    def _misbehave(self, window: Window) -> None:
        if self.how == "loop":
            while True:
                pass
        if self.how == "exit":
            sys.exit(3)
        if self.how == "os_exit":
            os._exit(7)
        if self.how == "kill":
            os.kill(os.getpid(), 9)
        if self.how == "eat":
            window.state["all"] = [bytearray(2**20) for _ in range(4096)]
        if self.how == "bloat":
            window.state["all"] = "x" * (17 * 2**20)
        raise ZeroDivisionError("at look 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(Rule):
    """Takes its time."""

    reads = ("steps",)

    def evaluate(self, window: Window) -> Any:
        import time

        time.sleep(0.02)
        window.judged(1)
        yield from ()
