"""What scripts with a loop of their own share: slow samples, and a clock for the parts of a step."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset


class Samples(Dataset):
    """Random samples, each of which takes a while to load."""

    def __init__(self, count: int, seconds: float) -> None:
        self.inputs, self.labels = torch.randn(count, 64), torch.randint(0, 4, (count,))
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.inputs[at], self.labels[at]


class Clock:
    """The time of each part of the loop, in all and in each step."""

    def __init__(self, *parts: str) -> None:
        self.took = dict.fromkeys(parts, 0.0)
        self.first = 0
        """The first step that counts; those before show what torch and the recorder do once."""
        self._steps: list[dict[str, float]] = []
        self._before = dict(self.took)
        self._began = self._step_began = time.perf_counter()

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the time of a block to its part."""
        began = time.perf_counter()
        yield
        self.took[part] += time.perf_counter() - began

    def stepped(self) -> None:
        """End a step."""
        now = time.perf_counter()
        step = {part: seconds - self._before[part] for part, seconds in self.took.items()}
        self._steps.append({**step, "loop": now - self._step_began})
        self._before, self._step_began = dict(self.took), now

    def restart(self, step: int) -> None:
        """Begin again with a step, when the one before has ended."""
        self.__init__(*self.took)  # type: ignore[misc]
        self.first = step

    def end(self) -> dict[str, Any]:
        """Return what it measured."""
        now = time.perf_counter()
        return {"took": dict(self.took), "loop": now - self._began, "first": self.first, "each": self._steps}


def write(truth: dict[str, Any]) -> None:
    """Write what a script says of its training."""
    Path("truth.json").write_text(json.dumps(truth))
