"""Memory and CPU of the agent beside a training of about a minute."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from machine import HERE, described, environment

LIMIT_MB = 100


def watch(process: subprocess.Popen[bytes], result: Path) -> tuple[float, float, float]:
    """Follow a process to its end; the training is over when its `result` is there.

    Returns:
        Largest resident memory beside the training and over all (MB), and CPU (percent of a core).
    """
    seen = psutil.Process(process.pid)
    beside, largest, cpu, began = 0.0, 0.0, 0.0, time.monotonic()
    while process.poll() is None:
        try:
            largest = max(largest, seen.memory_info().rss / 1e6)
            if not result.exists():
                beside = largest
            times = seen.cpu_times()
            cpu = times.user + times.system
        except psutil.NoSuchProcess:
            break
        time.sleep(0.1)
    return beside, largest, 100 * cpu / (time.monotonic() - began)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40_000)
    chosen = parser.parse_args()
    holter = [sys.executable, "-m", "holter"]
    with tempfile.TemporaryDirectory() as scratch:
        store = ["--store", f"{scratch}/store"]
        loop = [
            sys.executable,
            str(HERE / "loop.py"),
            "--steps",
            str(chosen.steps),
            "--out",
            f"{scratch}/steps",
        ]
        command = [*holter, "run", *store, "--job", "rss", "--", *loop]
        with subprocess.Popen(
            command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as run:
            beside, largest, cpu = watch(run, Path(scratch) / "steps")
        asked = subprocess.run(
            [*holter, "describe", "rss", "--json", *store], capture_output=True, check=True, env=environment()
        )
    cost = json.loads(asked.stdout)["cost"]
    print(f"{described()}, {chosen.steps} steps of about 1 ms\n")
    print("| of the agent | value | target |\n|---|---|---|")
    print(f"| largest resident memory beside the training | {beside:.0f} MB | ≤ {LIMIT_MB} MB |")
    print(f"| … after it, for the verdict | {largest:.0f} MB | |")
    print(f"| CPU, the final verdict included | {cpu:.1f} % of a core | |")
    print(f"| CPU, its own samples | {cost['agent_cpu_pct']:.1f} % of a core | |")


if __name__ == "__main__":
    main()
