"""What the sentinel costs a step: the time of its calls within trainings of several sizes.

    python benchmarks/sentinel_cost.py [--steps 1100]

Each training runs in this process with the adapter attached. The benchmark times the sentinel's own calls
(its facts, its looks at gradients and inputs, fingerprints of batches) and divides by the steps, so a busy
machine disturbs little. Printed: microseconds of a step that is watched (median), of a step on average from
step 100 on, and the share of a step of 1 ms and of 10 ms.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from time import thread_time_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from holter.recorder import session as sessions
from holter.recorder.frameworks.pytorch.sentinel import Sentinel
from holter.recorder.frameworks.pytorch.sentinel.batches import BatchPrints
from holter.recorder.frameworks.pytorch.sentinel.inputs import InputWatch

MODELS = {"6 parameters": 2, "62 parameters": 30, "402 parameters": 200}
FEATURES = 32
spent: dict[int, int] = {}
now = 0


def timed(owner: Any, name: str) -> None:
    """Add the time of each call to the current step."""
    original = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        began = thread_time_ns()
        try:
            return original(*args, **kwargs)
        finally:
            spent[now] = spent.get(now, 0) + thread_time_ns() - began

    setattr(owner, name, call)


def train(depth: int, steps: int) -> None:
    """Train a perceptron of so many hidden layers."""
    global now
    layers = [m for _ in range(depth) for m in (nn.Linear(FEATURES, FEATURES), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(FEATURES, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(16 * steps, FEATURES), torch.randint(0, 4, (16 * steps,)))
    for step, (x, y) in enumerate(DataLoader(data, 16)):
        now = step
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def main() -> None:
    """Print one row for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1100)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    for name in ("before", "finish", "on_loss", "begin", "next", "read", "on_forward"):
        timed(Sentinel, name)
    timed(InputWatch, "_before")
    timed(BatchPrints, "_on_batch")
    print("| model | watched step, us | average step, us | of 1 ms | of 10 ms |\n|---|---:|---:|---:|---:|")
    for name, depth in MODELS.items():
        spent.clear()
        spool = tempfile.mkdtemp()
        session = sessions.Session(spool)
        session.install()
        session.attach("pytorch")
        try:
            train(depth, steps)
        finally:
            session.close()
            shutil.rmtree(spool)
        watched = statistics.median(sorted(spent.values())[-steps // 100 :]) / 1e3
        average = sum(time for step, time in spent.items() if step >= 100) / (steps - 100) / 1e3
        shares = f"{average / 10:.2f} % | {average / 100:.3f} %"
        print(f"| {name} | {watched:.0f} | {average:.2f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
