"""How long it takes from `holter profile` to the first step in the window, and until its rows can be read.

    python benchmarks/window_latency.py [--rounds 5] [--steps 5] [--operators 0]

A job of steps of some 5 ms runs; each round asks for a window as the command does (without the start of a
Python for it, which is shown apart) and waits for its rows. The begin of a window is what the job says of it.
`--operators` are more small ones in each step: `--rounds 3 --steps 100 --operators 5000` makes windows of a
million events. The longest step is what the training says of the time when its windows end.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from machine import described

from holter.cli.commands import profile
from holter.job import open as open_job

TRAINING = """
import os, time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
more, began, longest = torch.ones(4), time.perf_counter(), 0.0
while not os.path.exists("enough"):
    for _ in range(int(os.environ["OPERATORS"])):
        more.relu()
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    time.sleep(0.005)
    now = time.perf_counter()
    longest, began = max(longest, now - began), now
    if os.path.exists("measured"):
        longest = 0.0
        os.unlink("measured")
with open("longest", "w") as file:
    file.write(str(longest))
"""
_PATIENCE_S = 60.0


def trains(job: Path) -> bool:
    """Return whether steps can be read already."""
    try:
        return open_job(str(job)).trial.table("spans").rows > 0
    except (OSError, LookupError):
        return False


def windows(job: Path) -> list[dict[str, object]]:
    """Return what the job says of its windows so far."""
    try:
        rows = open_job(str(job)).trial.table("events", where="kind = 'window'").to_rows()
    except (OSError, LookupError):
        return []
    return [json.loads(row["detail"]) for row in rows]


def until_more(job: Path, known: int) -> dict[str, object]:
    """Wait for one more window; the agent tells of it once its rows are in the store."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if len(found := windows(job)) > known:
            return found[-1]
        time.sleep(0.05)
    raise TimeoutError(f"no window within {_PATIENCE_S:.0f} s")


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--operators", type=int, default=0, help="more small ones in each step")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holter-latency-"))
    command = [sys.executable, "-m", "holter", "run", "--store", "jobs", "--job", "live", "--no-rules", "--"]
    environment = {**os.environ, "PYTHONPATH": sys.path[0], "OPERATORS": str(given.operators)}
    running = subprocess.Popen(
        [*command, sys.executable, "-c", TRAINING], cwd=folder, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        measure(folder, given.rounds, given.steps)
    finally:
        (folder / "enough").touch()
        running.wait(_PATIENCE_S)
        if (told := folder / "longest").exists():
            print(f"| longest step | | {float(told.read_text()):.2f} | |")
        shutil.rmtree(folder)


def measure(folder: Path, rounds: int, steps: int) -> None:
    """Ask for windows and print how long they took."""
    job = folder / "jobs" / "live"
    words = ["live", "--steps", str(steps), "--store", str(folder / "jobs")]
    while not trains(job):
        time.sleep(0.5)
    (folder / "measured").touch()  # what comes first takes longer
    begins, readable, events = [], [], []
    for known in range(rounds):
        asked = time.time()
        with contextlib.redirect_stdout(io.StringIO()):
            profile.main(words)
        told = until_more(job, known)
        seen = time.time()
        begins.append(int(str(told["begin"])) / 1e9 - asked)
        events.append(int(str(told["events"])))
        readable.append(seen - int(str(told["end"])) / 1e9)
        time.sleep(0.37)  # no rhythm of the agent's
    print(f"{described()}; {statistics.median(events):,.0f} events in a window\n")
    print("| seconds | median | slowest | target |\n|---|---:|---:|---:|")
    for name, values, target in (
        ("from the order to the window", begins, "≤ 1"),
        ("from its end to its rows", readable, "≤ 5"),
    ):
        print(f"| {name} | {statistics.median(values):.2f} | {max(values):.2f} | {target} |")


if __name__ == "__main__":
    main()
