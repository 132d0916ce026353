"""What saving tensors costs a training step: the default diet, and full statistics of weights and gradients.

    python benchmarks/tensors.py [--rounds 5] [--steps 30]

One process; in each round blocks of steps in turn unrecorded, recorded without the diet, with it, and with
all statistics of every gradient and weight at every step. CPU time of the process counts, so that what others
do on the machine disturbs little; each ratio is that of medians over the rounds. What saving every 100 steps
costs is a hundredth of what it adds at every step. TensorBoard's and wandb's histograms of the same tensors
stand beside it where they can be imported.
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
WARM = 4
FULL = ("gradients@1", "weights@1")


class Loop:
    """A training of a plain network whose step takes some 50 ms on one core."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(BATCH, WIDTH)

    def steps(self, count: int, after: Callable[[int], None] | None = None) -> float:
        """Train; return the CPU time of a step, ms, but for the first few."""
        began = 0
        for step in range(count + WARM):
            if step == WARM:
                began = process_time_ns()
            self.optimizer.zero_grad()
            self.model(self.batch).square().mean().backward()
            if after is not None:
                after(step)
            self.optimizer.step()
        return (process_time_ns() - began) / count / 1e6


@contextlib.contextmanager
def recording(*save: str, diet: bool = True) -> Iterator[Path]:
    """Record what runs inside; yields the spool."""
    spool = Path(tempfile.mkdtemp(prefix="holter-tensors-"))
    session = sessions.Session(str(spool))
    session.install()
    session.attach("pytorch")
    session.collector("pytorch.diet").on = diet
    if session.watch is not None:
        session.watch(requests(save))
    try:
        yield spool
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


def measure(loop: Loop, name: str, steps: int) -> float:
    """Run one block of one tool."""
    if name == "plain":
        return loop.steps(steps)
    if name == "tensorboard":
        with tempfile.TemporaryDirectory() as folder:
            return loop.steps(steps, tensorboard(loop, folder))
    if name == "wandb":
        import wandb

        run = wandb.init(mode="offline", dir=tempfile.mkdtemp())
        run.watch(loop.model, log="all", log_freq=1)
        try:
            return loop.steps(steps, lambda step: run.log({"step": step}))
        finally:
            run.unwatch(loop.model)
            run.finish()
    with recording(*(FULL if name == "full" else ()), diet=name != "recorder"):
        return loop.steps(steps)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    loop = Loop()
    loop.steps(3)
    peers = [name for name in ("tensorboard", "wandb") if importlib.util.find_spec(name)]
    names = ["plain", "recorder", "diet", "full", *peers]
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            taken[name].append(measure(loop, name, options.steps))
    median = {name: statistics.median(times) for name, times in taken.items()}
    plain, recorder = median["plain"], median["recorder"]
    print(described())
    print(f"step without holter: {plain:.1f} ms of CPU; {2 * len(list(loop.model.parameters()))} tensors")
    print(f"default diet, beside the rest of the recorder: x {median['diet'] / recorder:.4f}")
    print(f"full statistics at every step:                 x {median['full'] / recorder:.3f}")
    print(f"full statistics every 100 steps:               x {1 + (median['full'] / recorder - 1) / 100:.5f}")
    for name in ("tensorboard", "wandb"):
        ratio = f"x {median[name] / plain:.3f}" if name in median else "cannot be imported here"
        print(f"{name}, histograms at every step: {ratio}")


if __name__ == "__main__":
    main()
