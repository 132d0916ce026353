"""What saving tensors costs a training step: the default diet, and full statistics of weights and gradients.

    python benchmarks/tensors.py [--rounds 8] [--peers FOLDER]

One process and one training: blocks of steps with and without what is measured follow each other, and the
lower quartile of the CPU time of blocks counts, so that what others do on the machine hits both alike and
little. The first step of a block is left out: what the step before it left to do falls into it. What saving
every 100 steps costs is a hundredth of what it adds at every step. Peers that save the same tensors at each
step stand beside it with `--peers` and the folder that `benchmarks/peers` filled.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import subprocess
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
BLOCK = 11
"""Steps of one block; the first is not counted, the others hold all that is saved once in ten steps."""
SAVED = ("gradients", "weights")


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


def compare(
    loop: Loop, blocks: int, on: Callable[[], object], off: Callable[[], object]
) -> tuple[float, float]:
    """Return the CPU time of a step without and with something, ms; `blocks` of each in turn."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * blocks):
        with_it = number % 2 == 1
        after = (on if with_it else off)()
        times[with_it].append(block(loop, after if callable(after) else None))
    return quartile(times[False]), quartile(times[True])


def block(loop: Loop, after: Callable[[int], None] | None = None) -> float:
    """Return the CPU time of a step, ms: the mean of a block without its first."""
    return statistics.fmean(loop.steps(BLOCK, after)[1:])


def quartile(times: list[float]) -> float:
    """Return the lower quartile."""
    return statistics.quantiles(times, n=4)[0]


def main() -> None:
    """Measure and print the table."""
    from tensor_peers import PEERS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--peers", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    torch.set_num_threads(1)
    loop = Loop()
    loop.steps(3)
    size = 2 * sum(one.numel() for one in loop.model.parameters()) / 1e6
    print(described())
    with recording() as session:
        diet = session.collector("pytorch.diet")
        loop.steps(BLOCK)
        plain, ours = compare(
            loop, options.rounds, lambda: setattr(diet, "on", True), lambda: setattr(diet, "on", False)
        )
        tensors = 2 * len(list(loop.model.parameters()))
        print(f"\nA step of {plain:.1f} ms of CPU on one thread; {tensors} parameters and gradients have")
        print(f"{size:.1f} million elements. Peers save them at every step, each beside a base of its own:\n")
        print("| saved | ratio | ms a step |\n|---|---|---|")
        print(f"| nothing asked for: the default diet | {ours / plain:.3f} | {ours - plain:.1f} |")
        diet.on = False
        watch = session.watch
        assert watch is not None

        def save(every: int, how: str = "") -> None:
            watch(requests([f"{name}@{every}{how}" for name in SAVED]))

        never = 1 << 40
        save(1)
        loop.steps(BLOCK)
        plain, ours = compare(loop, options.rounds, lambda: save(1), lambda: save(never))
        rows = {
            "full statistics at every step": 1,
            "the same every 100 steps": 100,
            "at every step, with `:each`": 1,
        }
        for said, every in rows.items():
            if "each" in said:
                plain, ours = compare(loop, options.rounds, lambda: save(1, ":each"), lambda: save(never))
            more = (ours - plain) / every
            print(f"| {said} | {1 + more / plain:.3f} | {more:.2f} |")
    if options.peers:
        for name, (environment, said, _) in PEERS.items():
            python = options.peers / environment / "bin/python"
            if not python.exists():
                print(f"| {said} | not installed | |", flush=True)
                continue
            script = Path(__file__).with_name("tensor_peers.py")
            command = [python, script, name, "--rounds", str(options.rounds)]
            done = subprocess.run(command, capture_output=True, text=True)
            found = [line for line in done.stdout.splitlines() if line.startswith("| ")]
            print(found[0] if found else f"| {said} | failed | |", flush=True)
            if not found:
                print(done.stderr, file=sys.stderr)


if __name__ == "__main__":
    main()
