"""What recording a plain PyTorch loop costs per step, against the same loop unrecorded, interleaved.

    python benchmarks/step_cost.py [--rounds 11] [--json]

One process trains in turn unrecorded and recorded (the adapter attached and detached), a second each after
two of warm-up, so that a busy machine hits both alike. A round compares a recorded turn with the unrecorded
turns before and after it. Printed: what is added to a step, in microseconds, as the median of the rounds
and their middle half, for steps of about 0.1 and 1 ms (longer ones vary by more than that:
`one_process.py`). The loader has no workers: building batches is part of the step, and recorded.
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
PARTS = ("quartile", "median")
WARMUP_NS = 2_000_000_000
"""Files are made, root modules looked for, fetches judged; that happens early in a job, not at every step."""
TURN_NS = 1_000_000_000


class Net(nn.Module):  # type: ignore[misc]
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

    def turn(self) -> list[float]:
        """Return the same of a turn, after a while of training, recorded or not."""
        until = perf_counter_ns() + WARMUP_NS
        while perf_counter_ns() < until:
            self.block()
        until, times = perf_counter_ns() + TURN_NS, []
        while perf_counter_ns() < until:
            times += self.block()
        return times


def recorded(loop: Loop) -> tuple[list[float], float, float]:
    """Run a turn under the recorder; return its times, records in a step, and its cost as told, in us."""
    spool = tempfile.mkdtemp(prefix="holter-step-cost-")
    try:
        session = sessions.Session(spool)
        session.install()
        session.attach("pytorch")
        try:
            before, step = session.thread_spool().cost(), session.step
            times = loop.turn()
            told = (session.thread_spool().cost() - before) / (session.step - step) / 1e3
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
    """Run turns of one workload; others' load disturbs the lower quartile of steps least."""
    loop = Loop(*WORKLOADS[name])
    loop.block(), recorded(loop)
    plain, ours = [_parts(loop.turn())], []
    records = told = 0.0
    for _ in range(rounds):
        times, records, told = recorded(loop)
        ours.append(_parts(times))
        plain.append(_parts(loop.turn()))
    result: dict[str, float | str] = {"workload": name, "records": records, "told_us": told}
    for at, part in enumerate(PARTS):
        around = [(a[at] + b[at]) / 2 for a, b in pairwise(plain)]
        added = [a[at] - b for a, b in zip(ours, around, strict=True)]
        low, middle, high = statistics.quantiles(added, n=4)
        result |= {
            f"plain_{part}_us": statistics.median(around),
            f"added_{part}_us": middle,
            f"added_{part}_low_us": low,
            f"added_{part}_high_us": high,
        }
    return result


def _parts(times: list[float]) -> tuple[float, float]:
    quarters = statistics.quantiles(times, n=4)
    return quarters[0], quarters[1]


def main() -> None:
    """Measure every workload and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = [measure(name, options.rounds) for name in WORKLOADS]
    if options.json:
        print(json.dumps(results))
        return
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}")
    heads = f"{'plain µs':>10}{'added µs':>10}{'':^14}"
    print(f"{'':<20}{'lower quartile of steps':^34}{'median step':^34}")
    print(f"{'step':<20}{heads}{heads}{'records':>9}{'told µs':>9}")
    for r in results:
        parts = ""
        for part in PARTS:
            spread = f"({r[f'added_{part}_low_us']:.1f} to {r[f'added_{part}_high_us']:.1f})"
            parts += f"{r[f'plain_{part}_us']:>10.0f}{r[f'added_{part}_us']:>10.1f}{spread:>14}"
        print(f"{r['workload']:<20}{parts}{r['records']:>9.1f}{r['told_us']:>9.1f}")


if __name__ == "__main__":
    main()
