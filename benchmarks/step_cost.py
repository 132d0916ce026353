"""What recording a plain PyTorch loop costs per step, against the same loop unrecorded, interleaved.

    python benchmarks/step_cost.py [--rounds 15] [--json]

One process, blocks of steps in turn unrecorded and recorded (the adapter attached and detached), so that
a busy machine hits both alike. Printed: what is added to a step, in microseconds and as a ratio, for steps
of about 0.1 and 1 ms (longer ones vary by more than that: `one_process.py`). The loader
has no workers: building batches is part of the step, and recorded.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from holter.recorder import session as sessions
from holter.schema.phases import Phase
from holter.schema.record import RECORD

WORKLOADS = {  # name: (width, depth, steps in a block, loader)
    "0.1 ms, no loader": (8, 1, 200, False),
    "0.1 ms": (8, 1, 200, True),
    "1 ms": (320, 3, 60, True),
}
BATCH = 32
WARMUP_NS = 2_000_000_000
"""Files are made, root modules looked for, fetches judged; that happens early in a job, not at every step."""


class Net(nn.Module):
    """A multi-layer perceptron whose size sets how long a step takes."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        layers = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.ReLU())]
        self.body = nn.Sequential(*layers, nn.Linear(width, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit for each of two classes."""
        return self.body(x)


class Loop:
    """A training that can be run block by block."""

    def __init__(self, width: int, depth: int, steps: int, loader: bool) -> None:
        torch.manual_seed(0)
        self.model = Net(width, depth)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        samples = TensorDataset(torch.randn(steps * BATCH, width), torch.randint(0, 2, (steps * BATCH,)))
        batch = next(iter(DataLoader(samples, BATCH)))
        self.batches = DataLoader(samples, BATCH) if loader else [batch] * steps
        self.steps = steps

    def block(self) -> list[float]:
        """Return the wall time of each step but the first, microseconds."""
        ends = []
        for x, y in self.batches:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            ends.append(perf_counter_ns())
        return [(b - a) / 1e3 for a, b in pairwise(ends)]

    def warm_block(self) -> list[float]:
        """Return the same after a while of training, recorded or not."""
        until = perf_counter_ns() + WARMUP_NS
        while perf_counter_ns() < until:
            self.block()
        return self.block()


def recorded(loop: Loop) -> tuple[list[float], float, float]:
    """Run a block under the recorder; return its times, records in a step, and its cost as told, in us."""
    spool = tempfile.mkdtemp(prefix="holter-step-cost-")
    try:
        session = sessions.Session(spool)
        session.install()
        session.attach("pytorch")
        try:
            before, step = session.marks().cost(), session.step
            times = loop.warm_block()
            told = (session.marks().cost() - before) / (session.step - step) / 1e3
        finally:
            session.close()
        phases = [
            record[-1]
            for path in Path(spool).glob("*.seg")
            for record in RECORD.iter_unpack(path.read_bytes())
            if record[-1]
        ]
        steps = [phase for phase in phases if phase == Phase.OPTIMIZER]
        records = len(phases)
        return times, records / len(steps), told
    finally:
        shutil.rmtree(spool)


def measure(name: str, rounds: int) -> dict[str, float | str]:
    """Interleave blocks of one workload; others' load disturbs the lower quartile of steps least."""
    loop = Loop(*WORKLOADS[name])
    loop.block(), recorded(loop)
    plain: list[float] = []
    ours: list[float] = []
    records = told = 0.0
    for _ in range(rounds):
        plain += loop.warm_block()
        times, records, told = recorded(loop)
        ours += times
    result: dict[str, float | str] = {"workload": name, "records": records, "told_us": told}
    for part, at in (("quartile", 25), ("median", 50)):
        before, after = (statistics.quantiles(times, n=100)[at - 1] for times in (plain, ours))
        result |= {
            f"plain_{part}_us": before,
            f"added_{part}_us": after - before,
            f"ratio_{part}": after / before,
        }
    return result


def main() -> None:
    """Measure every workload and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = [measure(name, options.rounds) for name in WORKLOADS]
    if options.json:
        print(json.dumps(results))
        return
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}")
    print(f"{'':<20}{'lower quartile':^28}{'median':^28}")
    heads = f"{'plain µs':>10}{'added µs':>10}{'ratio':>8}"
    print(f"{'step':<20}{heads}{heads}{'records':>9}{'told µs':>9}")
    for r in results:
        parts = "".join(
            f"{r[f'plain_{part}_us']:>10.0f}{r[f'added_{part}_us']:>10.1f}{r[f'ratio_{part}']:>8.3f}"
            for part in ("quartile", "median")
        )
        print(f"{r['workload']:<20}{parts}{r['records']:>9.1f}{r['told_us']:>9.1f}")


if __name__ == "__main__":
    main()
