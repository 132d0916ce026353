"""Trainings with a second thread, which holds the interpreter or leaves it alone."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import torch
from tests.zoo.timed.clock import SICK, Batch, batch, main, train
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEPS = 500
_WORK = "while True: sum(len(word) for word in ['to', 'be', 'or', 'not'] * 100)"


def collect(over: threading.Event) -> None:
    """Summarize words in Python until the training is over."""
    while not over.is_set():
        sum(len(word) for word in ["to", "be", "or", "not"] * 100)


def sleep(over: threading.Event) -> None:
    """Look at something once in a while."""
    while not over.wait(0.05):
        len(["to", "be"] * 1000)


def multiply(over: threading.Event) -> None:
    """Compute without the interpreter lock."""
    matrix = torch.randn(1500, 1500)
    while not over.is_set():
        matrix @ matrix


def _with_thread(work: Callable[[threading.Event], None], steps: int = STEPS) -> None:
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), name="metrics", daemon=True)
    thread.start()
    train([batch()] * steps)
    over.set()
    thread.join()


def process_collects() -> None:
    """The same work in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", _WORK]) as process:
        train([batch()] * 8 * STEPS)
        process.kill()


def thread_collects() -> None:
    if SICK:
        _with_thread(collect)
    else:
        process_collects()


def thread_sleeps() -> None:
    _with_thread(sleep, 4 * STEPS)


def thread_multiplies() -> None:
    _with_thread(multiply, 4 * STEPS)


def threads_prepare() -> None:
    """A thread prepares batches faster than they are used."""
    ready: queue.Queue[Batch | None] = queue.Queue(4)

    def prepare() -> None:
        for _ in range(4 * STEPS):
            time.sleep(0.001)
            ready.put(batch())
        ready.put(None)

    def taken() -> Iterator[Batch]:
        while (one := ready.get()) is not None:
            yield one

    threading.Thread(target=prepare, name="loader", daemon=True).start()
    train(taken())


def pins_memory() -> None:
    """A worker loads, and where there is a device, a thread pins the batches."""
    data = TensorDataset(*batch(128 * STEPS))
    train(DataLoader(data, batch_size=128, num_workers=1, pin_memory=torch.cuda.is_available()))


if __name__ == "__main__":
    main(globals())
