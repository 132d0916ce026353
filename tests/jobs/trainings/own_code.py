"""Trains with code of its own between the steps' known parts, and measures the time that this code takes."""

from __future__ import annotations

import gc
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

Batch = tuple[torch.Tensor, torch.Tensor]
STEPS = 80
spent = 0.0
"""Seconds in the planted code."""


def batch() -> Batch:
    return torch.randn(32, 64), torch.randint(0, 4, (32,))


def stream(steps: int) -> Iterator[Batch]:
    global spent
    for _ in range(steps):
        begin = time.perf_counter()
        time.sleep(0.03)
        made = batch()
        spent += time.perf_counter() - begin
        yield made


class Rows:
    """Gives batches as data sets of other libraries do."""

    def __iter__(self) -> Iterator[Batch]:
        for row in range(STEPS):
            yield self.convert(row)

    def convert(self, _: int) -> Batch:
        global spent
        begin = time.perf_counter()
        time.sleep(0.03)
        spent += time.perf_counter() - begin
        return batch()


def fed() -> Iterator[Batch]:
    global spent
    batches: queue.Queue[Batch] = queue.Queue(2)
    threading.Thread(target=fill, args=(batches,), name="loader", daemon=True).start()
    for _ in range(STEPS):
        begin = time.perf_counter()
        made = batches.get()
        spent += time.perf_counter() - begin
        yield made


def fill(batches: queue.Queue[Batch]) -> None:
    while True:
        batches.put(decode())


def decode() -> Batch:
    time.sleep(0.03)
    return batch()


BATCHES: dict[str, Callable[[], Iterable[Batch]]] = {
    "stream": lambda: stream(STEPS),
    "rows": Rows,
    "fed": fed,
}


def plain(steps: int) -> Iterator[Batch]:
    for _ in range(steps):
        yield batch()


def stall(step: int, _: nn.Module) -> None:
    if step == 60:
        time.sleep(4)


def collect(_: int, __: nn.Module) -> None:
    gc.collect()


def save(step: int, model: nn.Module) -> None:
    if step % 20 == 0:
        torch.save(model.state_dict(), "model.pt")
        time.sleep(0.8)


def convert(_: int, __: nn.Module) -> None:
    subprocess.run(["sleep", "0.03"], check=True)


def write_through(step: int, _: nn.Module) -> None:
    until = time.perf_counter() + 0.03
    with Path("log.txt").open("a") as file:
        while time.perf_counter() < until:
            file.write(f"{step}\n")
            file.flush()
            os.fsync(file.fileno())


def count_words(_: int, __: nn.Module) -> None:
    until = time.perf_counter() + 0.03
    while time.perf_counter() < until:
        sum(len(word) for word in ["to", "be", "or", "not", "to", "be"])


def rollout(_: int, __: nn.Module) -> None:
    """Alternate short stretches of Python with operators, as an environment and its agent do."""
    global spent
    state = torch.zeros(64, 64)
    for _ in range(160):  # some seconds of steps, for a hundred samples
        begin = time.perf_counter()
        play()
        spent += time.perf_counter() - begin
        for _ in range(100):
            state = state.add(1.0)


def play() -> None:
    sum(number % 7 for number in range(8000))  # some 300 us, without an operator


asked: queue.Queue[int] = queue.Queue()
ready: queue.Queue[int] = queue.Queue()


def produce() -> None:
    while True:
        asked.get()
        time.sleep(0.03)
        ready.put(1)


def wait_for_producer(_: int, __: nn.Module) -> None:
    asked.put(1)
    ready.get()


def main(case: str) -> None:
    global spent
    kept: list[Any] = [{"a": [at]} for at in range(300_000)] if case == "collect" else []
    if case == "wait_for_producer":
        threading.Thread(target=produce, daemon=True).start()
    after = globals()[case] if case not in (*BATCHES, "plain") else None
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ends: list[tuple[float, float]] = []
    batches = BATCHES[case]() if case in BATCHES else plain(STEPS)
    for step, (inputs, targets) in enumerate(batches):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        ends.append((time.perf_counter(), spent))
        if after is not None:
            entered = time.perf_counter()
            after(step, model)
            if case != "rollout":  # it measures a part of itself
                spent += time.perf_counter() - entered
    Path("ends.json").write_text(json.dumps(ends))
    del kept


if __name__ == "__main__":
    main(sys.argv[1])
