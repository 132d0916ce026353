"""What recording a plain PyTorch loop costs per step, against the same loop unrecorded, interleaved.

    python benchmarks/step_cost.py [--rounds 15] [--json]

One process, blocks of steps in turn unrecorded and recorded (the adapter attached and detached), so that
a busy machine hits both alike. Printed: the median of the blocks' differences in microseconds per step,
and the ratio of the medians, for steps of about 0.1, 1 and 10 ms.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns, process_time_ns

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from holter.recorder import session as sessions
from holter.schema.record import RECORD

WORKLOADS = {  # name: (width, depth, steps in a block, loader)
    "0.1 ms, no loader": (8, 1, 200, False),
    "0.1 ms": (8, 1, 200, True),
    "1 ms": (160, 3, 60, True),
    "10 ms": (768, 4, 12, True),
}
BATCH = 32


class Net(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        layers = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.ReLU())]
        self.body = nn.Sequential(*layers, nn.Linear(width, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
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

    def block(self) -> tuple[float, float]:
        """Return wall and processor time per step, microseconds; the first tenth is not counted."""
        skip = self.steps // 10
        wall = cpu = 0
        for i, (x, y) in enumerate(self.batches):
            if i == skip:
                wall, cpu = perf_counter_ns(), process_time_ns()
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
        counted = (self.steps - skip) * 1e3
        return (perf_counter_ns() - wall) / counted, (process_time_ns() - cpu) / counted


def recorded(loop: Loop) -> tuple[tuple[float, float], int]:
    """Run a block under the recorder; return its times and how many records it wrote."""
    spool = tempfile.mkdtemp(prefix="holter-step-cost-")
    try:
        session = sessions.Session(spool)
        session.install()
        session.attach("pytorch")
        try:
            for x, y in list(loop.batches)[:4]:  # the steps in which root modules are looked for
                loop.optimizer.zero_grad()
                nn.functional.cross_entropy(loop.model(x), y).backward()
                loop.optimizer.step()
            times = loop.block()
        finally:
            session.close()
        records = sum(
            record[-1] != 0
            for path in Path(spool).glob("*.seg")
            for record in RECORD.iter_unpack(path.read_bytes())
        )
        return times, records
    finally:
        shutil.rmtree(spool)


def measure(name: str, rounds: int) -> dict[str, float | str]:
    """Interleave blocks of one workload."""
    loop = Loop(*WORKLOADS[name])
    loop.block(), recorded(loop)
    plain, ours, records = [], [], 0
    for _ in range(rounds):
        plain.append(loop.block())
        times, records = recorded(loop)
        ours.append(times)
    result: dict[str, float | str] = {"workload": name}
    for i, clock in enumerate(("wall", "cpu")):
        result[f"plain_{clock}_us"] = statistics.median(p[i] for p in plain)
        result[f"added_{clock}_us"] = statistics.median(o[i] - p[i] for p, o in zip(plain, ours, strict=True))
        result[f"ratio_{clock}"] = statistics.median(o[i] for o in ours) / result[f"plain_{clock}_us"]
    result["records_per_step"] = records / (loop.steps + 4)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = [measure(name, options.rounds) for name in WORKLOADS]
    if options.json:
        print(json.dumps(results))
        return
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}")
    print(f"{'step':<20}{'plain µs':>10}{'added µs':>10}{'ratio':>8}{'added CPU µs':>14}{'CPU ratio':>11}{'records':>9}")
    for r in results:
        print(
            f"{r['workload']:<20}{r['plain_wall_us']:>10.0f}{r['added_wall_us']:>10.1f}{r['ratio_wall']:>8.3f}"
            f"{r['added_cpu_us']:>14.1f}{r['ratio_cpu']:>11.3f}{r['records_per_step']:>9.1f}"
        )


if __name__ == "__main__":
    main()
