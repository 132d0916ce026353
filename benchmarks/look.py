"""What the look costs in trainings of 1 ms, of 10 ms, and of 600 small operators a step: `--look always`."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from loop import SIZES, material
from machine import described, environment

import holter.job

ROUNDS = 3
STEPS = {"1ms": 1500, "10ms": 200, "small operators": 300}


def train(size: str) -> None:
    """Train for some steps, and print the median step of the second half, ns."""
    model, optimizer, batches = material(size if size in SIZES else "1ms")
    ends: list[int] = []
    while len(ends) < STEPS[size]:
        for inputs, targets in batches:
            optimizer.zero_grad()
            outputs = model(inputs)
            if size not in SIZES:
                row = outputs.detach()[0]
                for _ in range(300):
                    row = torch.tanh(row * 1.0001)
            torch.nn.functional.mse_loss(outputs, targets).backward()
            optimizer.step()
            ends.append(time.perf_counter_ns())
    later = ends[len(ends) // 2 :]
    print(statistics.median(b - a for a, b in itertools.pairwise(later)))


def looked_at(size: str, store: str, number: int) -> dict[str, float]:
    """Return what the look of one training cost, ms, and how many operators it saw."""
    job = f"job-{number}"
    options = ["--store", store, "--job", job, "--no-rules", "--look", "always"]
    command = [sys.executable, "-m", "holter", "run", *options, "--", sys.executable, __file__, size]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
    step = float(done.stdout.split()[0]) / 1e6
    events = holter.job.open(f"{store}/{job}").events.table
    told = [json.loads(text) for text in events["detail"][events["kind"] == "window"].tolist()]
    by_number = {one["number"]: one for one in told}
    first, second = by_number[1], by_number.get(2)
    found = {"step": step, "first": first["cost_ns"] / 1e6, "events": float(first["events"])}
    if second is not None:
        steps = second["last_step"] - second["first_step"]
        found |= {"steps": steps, "second": second["cost_ns"] / 1e6, "end": second["stop_ns"] / 1e6}
        found["slower"] = max((second["end"] - second["begin"]) / 1e6 / steps - step, 0.0)
    found["all"] = found["first"] + found.get("second", 0.0)
    return found


def main() -> None:
    """Print the table."""
    print(f"{described()}, medians of {ROUNDS} trainings, ms\n")
    print("| step | events a step | first window | second window | its steps | longer by | its end | all |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as store:
        for size in STEPS:
            rounds = [
                looked_at(size, f"{store}/{size.replace(' ', '-')}", number) for number in range(ROUNDS)
            ]
            names = ("events", "first", "second", "steps", "slower", "end", "all")
            found = [statistics.median(one.get(name, 0.0) for one in rounds) for name in names]
            step = statistics.median(one["step"] for one in rounds)
            print(
                f"| {size}: {step:.3g} ms |", " | ".join(f"{value:.3g}" for value in found), "|", flush=True
            )


if __name__ == "__main__":
    train(sys.argv[1]) if len(sys.argv) > 1 else main()
