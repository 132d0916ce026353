"""The loop of the timed trainings: it measures how long what is planted into a training takes."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SICK = 0 if "--well" in sys.argv else 1
"""Factor of all that is planted: the healthy twin runs the same code without it."""
SCHEDULER = Path("/proc/thread-self/schedstat")
Batch = tuple[torch.Tensor, torch.Tensor]
spent: Counter[str] = Counter()
"""Kind of work → seconds so far: loading, own, evaluation, checkpoint, delay, blocked."""
ends: list[tuple[float, dict[str, float]]] = []
"""The time at the end of each step, and `spent` by then."""
at: dict[str, float] = {}
"""When the first epoch begins and the last step ends, seconds since 1970."""


@contextmanager
def spending(kind: str) -> Iterator[None]:
    """Add the time of a block to what its kind of work took."""
    begin = time.perf_counter()
    yield
    spent[kind] += time.perf_counter() - begin


def stepped() -> None:
    """Note the end of a step, and how long this thread was ready to run without a core, or blocked."""
    if SCHEDULER.exists():
        ran, waited = (int(word) / 1e9 for word in SCHEDULER.read_text().split()[:2])
        spent["delay"], spent["blocked"] = waited, time.perf_counter() - ran - waited
    ends.append((time.perf_counter(), dict(spent)))
    at["last"] = time.time()


def batch(rows: int = 256) -> Batch:
    """Make a batch."""
    return torch.randn(rows, 256), torch.randint(0, 4, (rows,))


def net(width: int = 512) -> nn.Module:
    """Make a model whose step takes some milliseconds."""
    return nn.Sequential(
        nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
    )


def busy(seconds: float) -> None:
    """Work in Python for so long."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(len(word) for word in ["to", "be", "or", "not", "to", "be"])


def train(
    batches: Iterable[Any],
    *,
    after: Callable[[int, nn.Module], object] | None = None,
    kind: str = "own",
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> nn.Module:
    """Train for one epoch; `after` runs after each step and is work of `kind`."""
    model = net() if model is None else model
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    at.setdefault("first", time.time())
    left = time.perf_counter()
    for inputs, targets in batches:
        spent["loading"] += time.perf_counter() - left
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        stepped()
        if after is not None:
            begin = time.perf_counter()
            after(len(ends) - 1, model)
            spent[kind] += time.perf_counter() - begin
        left = time.perf_counter()
    return model


def finish(began: float) -> None:
    """Write what was measured."""
    measured = {"ends": ends, **at, "spent": dict(spent), "took": time.perf_counter() - began}
    Path("measured.json").write_text(json.dumps(measured))


def main(found: dict[str, Any]) -> None:
    """Run the training that the command line names."""
    began = time.perf_counter()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found[sys.argv[1]]()
    finish(began)
