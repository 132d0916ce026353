"""What saving tensors costs a training step: the default diet, and full statistics of weights and gradients.

    python benchmarks/tensors.py [--rounds 8] [--peers FOLDER] [--only diet] [--dtype bfloat16]

One process and one training: short blocks of steps with and without what is measured follow each other, the
one first and then the other, so that what others do on the machine hits both alike. Each such pair gives a
ratio: their median counts, and between which the middle half of them lies is told. The diet, whose cost is
near to nothing, gets four times the rounds. The first step of a block is left out: what the step before it
left to do falls into it. What saving every 100 steps costs is a hundredth of what it adds at every step.
Peers that save the same tensors at each step stand beside it with `--peers` and the folder that
`benchmarks/peers` filled.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns, process_time_ns

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from typing import TYPE_CHECKING, NamedTuple

import torch
from machine import described
from torch import nn

from holter.recorder import session as sessions
from holter.recorder.native import sums
from holter.recorder.tensors.requests import requests
from holter.schema.record import ENV_COMPILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH, DEPTH, BATCH = 512, 12, 160
BLOCK = 11
"""Steps of one block; the first is not counted, the others hold all that is saved once in ten steps."""
SAVED = ("gradients", "weights")


class Time(NamedTuple):
    """What something took, ms: CPU time, and time by the clock."""

    cpu: float
    wall: float


class Loop:
    """A training of a plain network whose step takes some 50 ms on one core."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        layers = [m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self.model = nn.Sequential(*layers).to(dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(BATCH, WIDTH, dtype=dtype)
        self.target = torch.randn(
            8, BATCH, WIDTH, dtype=dtype
        )  # not to be learned: gradients stay as large as they are

    def steps(self, count: int, after: Callable[[int], None] | None = None) -> list[Time]:
        """Train; return what each step took, ms."""
        times = []
        for step in range(count):
            began, wall = process_time_ns(), perf_counter_ns()
            self.optimizer.zero_grad()
            (self.model(self.batch) - self.target[step % 8]).square().mean().backward()
            if after is not None:
                after(step)
            self.optimizer.step()
            times.append(Time((process_time_ns() - began) / 1e6, (perf_counter_ns() - wall) / 1e6))
        return times


@contextlib.contextmanager
def recording() -> Iterator[sessions.Session]:
    """Record what runs inside, without the diet."""
    spool = tempfile.mkdtemp(prefix="holter-tensors-")
    session = sessions.Session(spool)
    session.install()
    session.attach("pytorch")
    session.breaker("pytorch.default_statistics").on = False
    try:
        yield session
    finally:
        session.close()
        shutil.rmtree(spool)


def compare(
    loop: Loop, rounds: int, on: Callable[[], object], off: Callable[[], object]
) -> list[tuple[Time, Time]]:
    """Return what a step takes without and with something, of `rounds` pairs of blocks."""
    pairs = []
    for number in range(rounds):
        found = {}
        for with_it in (False, True) if number % 2 else (True, False):
            after = (on if with_it else off)()
            found[with_it] = block(loop, after if callable(after) else None)
        pairs.append((found[False], found[True]))
    return pairs


def block(loop: Loop, after: Callable[[int], None] | None = None) -> Time:
    """Return what a step takes: the mean of a block without its first."""
    cpu, wall = zip(*loop.steps(BLOCK, after)[1:], strict=True)
    return Time(statistics.fmean(cpu), statistics.fmean(wall))


def row(said: str, pairs: list[tuple[Time, Time]], every: int = 1) -> str:
    """Return a row of the table: what is added at every step, told of what is saved `every` steps."""
    ratios = [1 + (on.cpu / off.cpu - 1) / every for off, on in pairs]
    walls = [1 + (on.wall / off.wall - 1) / every for off, on in pairs]
    more = statistics.median((on.cpu - off.cpu) / every for off, on in pairs)
    low, middle, high = statistics.quantiles(ratios, n=4)
    return (
        f"| {said} | {middle:.3f} | {low:.3f} to {high:.3f} | {statistics.median(walls):.3f} | {more:.2f} |"
    )


def saved(session: sessions.Session, loop: Loop, rounds: int) -> None:
    """Print the rows of full statistics."""
    watch = session.watch
    assert watch is not None

    def save(every: int, how: str = "") -> None:
        watch(requests([f"{name}@{every}{how}" for name in SAVED]))

    def measured(how: str = "") -> list[tuple[Time, Time]]:
        save(1, how)
        loop.steps(BLOCK)
        return compare(loop, rounds, lambda: save(1, how), lambda: save(1 << 40))

    if sums.compiled() is not None:
        pairs = measured()
        print(row("full statistics at every step", pairs))
        print(row("the same every 100 steps", pairs, 100))
        print(row("at every step, with `:each`", measured(":each")), flush=True)
    os.environ[ENV_COMPILE] = "0"
    sums.compiled.cache_clear()
    pairs = measured()
    print(row("full statistics at every step, nothing compiled", pairs))
    print(row("the same every 100 steps", pairs, 100), flush=True)


def main() -> None:
    """Measure and print the table."""
    from tensor_peers import PEERS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--peers", type=Path, metavar="FOLDER")
    parser.add_argument("--dtype", default="float32", choices=sums.TYPES, help="of the model and its data")
    parser.add_argument("--only", choices=["diet", "saved"], help="these rows only")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"--rounds {options.rounds}: at least 2")
    torch.set_num_threads(1)
    loop = Loop(getattr(torch, options.dtype))
    loop.steps(3)
    size = 2 * sum(one.numel() for one in loop.model.parameters()) / 1e6
    plain = statistics.median(one.cpu for one in loop.steps(BLOCK))
    tensors = 2 * len(list(loop.model.parameters()))
    print(described())
    print(f"\nA step of {plain:.1f} ms of CPU on one thread; {tensors} parameters and gradients have")
    print(f"{size:.1f} million elements. Peers save them at every step, each beside a base of its own:\n")
    print("| saved | ratio | middle half of pairs | by the clock | ms a step |\n|---|---|---|---|---|")
    with recording() as session:
        diet = session.breaker("pytorch.default_statistics")
        loop.steps(BLOCK)
        if options.only != "saved":
            pairs = compare(
                loop,
                4 * options.rounds,
                lambda: setattr(diet, "on", True),
                lambda: setattr(diet, "on", False),
            )
            print(row("nothing asked for: the default diet", pairs), flush=True)
        diet.on = False
        if options.only != "diet":
            saved(session, loop, options.rounds)
    if options.peers:
        for name, (environment, said, _) in PEERS.items():
            python = options.peers / environment / "bin/python"
            if not python.exists():
                print(f"| {said} | not installed | | | |", flush=True)
                continue
            script = Path(__file__).with_name("tensor_peers.py")
            command = [python, script, name, "--rounds", str(options.rounds)]
            done = subprocess.run(command, capture_output=True, text=True)
            found = [line for line in done.stdout.splitlines() if line.startswith("| ")]
            why = (done.stderr.strip().splitlines() or ["no output"])[-1]
            print(found[0] if found else f"| {said} | failed: {why} | | | |", flush=True)
            if not found:
                print(done.stderr, file=sys.stderr)


if __name__ == "__main__":
    main()
