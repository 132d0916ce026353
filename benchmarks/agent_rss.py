"""Memory and CPU of the agent beside a training of about a minute."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time

import psutil
from machine import HERE, described, environment

LIMIT_MB = 100


def watch(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Follow a process to its end; return the largest resident memory (MB) and CPU (percent of a core)."""
    seen = psutil.Process(process.pid)
    largest, cpu, began = 0.0, 0.0, time.monotonic()
    while process.poll() is None:
        try:
            largest = max(largest, seen.memory_info().rss / 1e6)
            times = seen.cpu_times()
            cpu = times.user + times.system
        except psutil.NoSuchProcess:
            break
        time.sleep(0.1)
    return largest, 100 * cpu / (time.monotonic() - began)


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
            largest, cpu = watch(run)
        asked = subprocess.run(
            [*holter, "describe", "rss", "--json", *store], capture_output=True, check=True, env=environment()
        )
    told = json.loads(asked.stdout)
    beside = [row["max"] / 1e6 for row in told["utilization"] if row["metric"] == "agent.rss"]
    own = told["cost"]["agent_cpu_pct"]
    print(f"{described()}, {chosen.steps} steps of about 1 ms\n")
    print("| of the agent | value | target |\n|---|---|---|")
    print(f"| most memory beside the training, its own samples | {max(beside):.0f} MB | ≤ {LIMIT_MB} MB |")
    print(f"| most memory with the final verdict | {largest:.0f} MB | |")
    print(f"| CPU beside the training, its own samples | {own:.1f} % of a core | |")
    print(f"| CPU with the final verdict | {cpu:.1f} % of a core | |")


if __name__ == "__main__":
    main()
