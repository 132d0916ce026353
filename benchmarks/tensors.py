"""What saving tensors costs a training step: the default diet, and full statistics of weights and gradients.

    python benchmarks/tensors.py [--rounds 8] [--peers]

One process and one training: short blocks of steps with and without what is measured follow each other, and
the lower quartile of the CPU time of their steps counts, so that what others do on the machine hits both
alike and little. The first step of a block is left out: what the step before it left to do falls into it.
What saving every 100 steps costs is a hundredth of what it adds at every step. TensorBoard's and wandb's
histograms of the same tensors stand beside it with `--peers`, where they can be imported.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from time import process_time_ns

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from typing import TYPE_CHECKING

import torch
from machine import described
from torch import nn

from holter.recorder import session as sessions
from holter.recorder.tensors.requests import requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH, DEPTH, BATCH = 512, 12, 160
BLOCK = 5
"""Steps of one block; the first of them is not counted."""
SAVED = ("gradients", "weights")
QUARTILE = 25


class Loop:
    """A training of a plain network whose step takes some 50 ms on one core."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(BATCH, WIDTH)
        self.target = torch.randn(8, BATCH, WIDTH)  # not to be learned: gradients stay as large as they are

    def steps(self, count: int, after: Callable[[int], None] | None = None) -> list[float]:
        """Train; return the CPU time of each step, ms."""
        times = []
        for step in range(count):
            began = process_time_ns()
            self.optimizer.zero_grad()
            (self.model(self.batch) - self.target[step % 8]).square().mean().backward()
            if after is not None:
                after(step)
            self.optimizer.step()
            times.append((process_time_ns() - began) / 1e6)
        return times


@contextlib.contextmanager
def recording() -> Iterator[sessions.Session]:
    """Record what runs inside, without the diet."""
    spool = tempfile.mkdtemp(prefix="holter-tensors-")
    session = sessions.Session(spool)
    session.install()
    session.attach("pytorch")
    session.collector("pytorch.diet").on = False
    try:
        yield session
    finally:
        session.close()
        shutil.rmtree(spool)


def tensorboard(loop: Loop, folder: str) -> Callable[[int], None]:
    """Return what writes histograms of every weight and gradient with TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder)

    def write(step: int) -> None:
        for name, parameter in loop.model.named_parameters():
            writer.add_histogram(name, parameter.detach(), step)
            writer.add_histogram(f"gradient/{name}", parameter.grad, step)

    return write


def wandb_watch(loop: Loop, folder: str) -> Callable[[int], None]:
    """Return what logs after wandb has been told to watch every weight and gradient."""
    import wandb

    run = wandb.init(mode="offline", dir=folder)
    run.watch(loop.model, log="all", log_freq=1)
    return lambda step: run.log({"step": step})


def compare(
    loop: Loop, blocks: int, on: Callable[[], object], off: Callable[[], object]
) -> tuple[float, float]:
    """Return the CPU time of a step without and with something, ms; `blocks` of each in turn."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * blocks):
        with_it = number % 2 == 1
        after = (on if with_it else off)()
        times[with_it] += loop.steps(BLOCK, after if callable(after) else None)[1:]
    plain, ours = (statistics.quantiles(times[which], n=100)[QUARTILE - 1] for which in (False, True))
    return plain, ours


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    loop = Loop()
    loop.steps(3)
    print(described())
    with recording() as session:
        diet = session.collector("pytorch.diet")
        loop.steps(BLOCK)
        plain, ours = compare(
            loop, options.rounds, lambda: setattr(diet, "on", True), lambda: setattr(diet, "on", False)
        )
        print(f"step: {plain:.1f} ms of CPU; {2 * len(list(loop.model.parameters()))} tensors")
        print(f"default diet, beside the rest of the recorder: x {ours / plain:.4f}")
        diet.on = False
        watch = session.watch
        assert watch is not None

        def save(every: int) -> None:
            watch(requests([f"{name}@{every}" for name in SAVED]))

        never = 1 << 40
        save(1)
        loop.steps(BLOCK)
        plain, ours = compare(loop, options.rounds, lambda: save(1), lambda: save(never))
        print(f"full statistics at every step:                 x {ours / plain:.3f}  ({ours - plain:.1f} ms)")
        print(f"full statistics every 100 steps:               x {1 + (ours / plain - 1) / 100:.5f}")
    peers = {"tensorboard": tensorboard, "wandb": wandb_watch} if options.peers else {}
    for name, start in peers.items():
        if importlib.util.find_spec(name) is None:
            print(f"{name}: cannot be imported here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            write = start(loop, folder)
            plain, ours = compare(loop, options.rounds, lambda write=write: write, lambda: None)
            print(f"{name}, histograms at every step: x {ours / plain:.3f}")


if __name__ == "__main__":
    main()
