"""What recording costs in the first steps of a new process: steps 100 to 400 of 0.6 ms, 64 samples a batch.

    python benchmarks/short_jobs.py [--rounds 15] [--with OPTION ...]

A process trains 400 steps and prints the CPU time of its training thread from step 100 to step 400. Processes
without and with `holter run` take turns. CPU time of one thread hardly depends on what else the machine
does, but two processes of one script differ by some percent: the table shows the quartiles of the ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import torch
from machine import described, last_line
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIRST, LAST = 100, 400
BATCH = 64
GOAL = 1.08


def train() -> None:
    """Train, and print the thread's CPU time per step, µs."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    data = TensorDataset(torch.randn(BATCH * (LAST + 1), 64), torch.randn(BATCH * (LAST + 1), 2))
    began = 0
    for step, (inputs, targets) in enumerate(DataLoader(data, batch_size=BATCH)):
        if step == FIRST:
            began = time.thread_time_ns()
        if step == LAST:
            print((time.thread_time_ns() - began) / (LAST - FIRST) / 1e3)
            break
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def measured(options: list[str] | None) -> float:
    """Return the CPU time per step of one process, µs; `options` are those of `holter run`, None is bare."""
    return float(last_line([sys.executable, __file__, "--train"], options))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--with", dest="options", nargs="*", default=[], help="options of holter run")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.train:
        return train()
    options = [f"--{one}" for one in asked.options]
    pairs = [(measured(None), measured(options)) for _ in range(asked.rounds)]
    ratios = statistics.quantiles([recorded / bare for bare, recorded in pairs], n=4)
    bare, recorded = (statistics.median(column) for column in zip(*pairs, strict=True))
    if asked.json:
        print(json.dumps({"bare_us": bare, "recorded_us": recorded, "ratios": ratios}))
        return None
    print(f"{described()}, {asked.rounds} rounds, options: {' '.join(options) or 'none'}\n")
    print("| bare, us | recorded, us | ratio | middle half | goal |\n|---|---|---|---|---|")
    print(f"| {bare:.0f} | {recorded:.0f} | {ratios[1]:.3f} | {ratios[0]:.3f} to {ratios[2]:.3f} | {GOAL} |")
    return None


if __name__ == "__main__":
    main()
