"""Kill, pause or block one of 8 real gloo ranks, and measure the time until holter names it.

The ranks run under torchrun and exchange gradients in each step. `kill` sends SIGKILL, `pause` sends SIGSTOP,
and with `block` one rank stands in a lock of its own while the others wait in the exchange. Only for `block`
the allowed silence is shortened (`--hang-after 5`): a rank that runs may have reasons that take minutes.

    python benchmarks/hanging_ranks.py
    python benchmarks/hanging_ranks.py --ranks 4 --trouble pause
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holter.store import job
from holter.store.trial import Trial
from holter.views.document.description import describe

SCRIPT = """
import os, pathlib, sys, threading, time
import torch
import torch.distributed as dist
from torch import nn

def blocked():
    threading.Event().wait()

dist.init_process_group("gloo")
torch.set_num_threads(1)
rank, here = dist.get_rank(), pathlib.Path(sys.argv[1])
(here / f"{rank}.pid").write_text(str(os.getpid()))
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    time.sleep(0.05)
    if rank == int(sys.argv[2]) and (here / "block").exists():
        blocked()
    model(torch.randn(16, 64)).pow(2).mean().backward()
    optimizer.step()
"""
TROUBLES = ("kill", "pause", "block")
STEPS = 60
"""Steps of each rank before its trouble."""


def measure(trouble: str, ranks: int, wait_s: float) -> bool:
    """Start a job, make one rank sick, and print when and how it is named; returns whether it was."""
    bad, pid = ranks * 5 // 8, 0
    with tempfile.TemporaryDirectory(prefix="holter-ranks-") as folder:
        here = Path(folder)
        (here / "train.py").write_text(SCRIPT)
        launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        command = [sys.executable, "-m", "holter", "run", "--store", str(here / "store"), "--job", "sick"]
        command += ["--hang-after", "5"] if trouble == "block" else []
        command += ["--", sys.executable, "-m", *launcher, str(here / "train.py"), str(here), str(bad)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with open(here / "said", "w") as said:
            run = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
        try:
            while not _steps(here) > STEPS * ranks:
                time.sleep(0.5)
                if run.poll() is not None:
                    raise SystemExit((here / "said").read_text())
            began = time.monotonic()
            pid = int((here / f"{bad}.pid").read_text())
            if trouble == "block":
                (here / "block").touch()
            else:
                os.kill(pid, signal.SIGKILL if trouble == "kill" else signal.SIGSTOP)
            while (named := _named(here, bad)) is None and time.monotonic() - began < wait_s:
                time.sleep(0.2)
            took = time.monotonic() - began
            said_so = named or f"NOT NAMED: {describe(_trial(here))['job']['headline']}"
            print(f"{trouble:6} rank {bad} of {ranks}: {took:5.1f} s  {said_so}", flush=True)
            return named is not None
        finally:
            with contextlib.suppress(OSError):
                if pid:
                    os.kill(pid, signal.SIGCONT)
            run.terminate()
            run.wait()


def _trial(here: Path) -> Trial:
    return Trial(job.find(str(here / "store"), "sick"))


def _steps(here: Path) -> int:
    try:
        return _trial(here).rows("spans") // 4
    except (FileNotFoundError, job.JobNotFound):  # it starts
        return 0


def _named(here: Path, bad: int) -> str | None:
    """Return the headline of the job, as soon as it names the rank."""
    said = describe(_trial(here))["job"]["headline"]
    return said if said and f"rank {bad}" in said else None


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--trouble", choices=TROUBLES, action="append")
    parser.add_argument("--wait", type=float, default=60.0, help="seconds after which a rank is not named")
    given = parser.parse_args()
    found = [measure(one, given.ranks, given.wait) for one in given.trouble or TROUBLES]
    sys.exit(not all(found))


if __name__ == "__main__":
    main()
