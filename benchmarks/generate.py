"""Write the job of a long training into a store: samples, spans, scalars and steps of many ranks.

The rows go through the real writer, in the order in which an agent would hand them over. Durations,
readings and their noise are drawn at random with a fixed seed; how finely each is resolved is that of
its source: clocks in nanoseconds, CPU shares of whole ticks, GPU readings as NVML gives them.

    python benchmarks/generate.py STORE --job NAME [--hours 12] [--ranks 8] [--step-s 0.3] [--no-spans] …
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import generated_tensors
import numpy as np

from holter.schema.phases import BREAKDOWN
from holter.store import job
from holter.store.compact import compact
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.store.job import JobFolder

START_NS = 1_780_000_000 * 10**9
PARTS = {
    "data_loading": 0.08,
    "h2d": 0.02,
    "forward": 0.26,
    "loss": 0.01,
    "backward": 0.50,
    "optimizer": 0.10,
}
"""Share of a step's time by part; what is left is `other`."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How the training looks that is written."""

    hours: float = 12.0
    ranks: int = 8
    cores: int = 96
    gpus: int = 8
    step_s: float = 0.3
    interval_ms: int = 500
    spans: bool = True
    nodes: int = 1
    parts: dict[str, float] = field(default_factory=lambda: dict(PARTS))
    slow_every: int = 1000
    """Each so many steps one takes three times as long, in data loading."""
    tensors: int = 0
    """So many tensors of each rank are saved, every hundred steps."""
    seed: int = 0
    chunk_s: int = 600
    """So much is handed over at once."""
    compacted: bool = True


def generate(store: str, name: str, training: Training) -> JobFolder:
    """Write the job; it has ended. Raises `OSError` when the store takes it not."""
    seconds = training.hours * 3600
    end_ns = START_NS + int(seconds * 1e9)
    folder = job.create(
        store,
        name,
        now_ns=START_NS,
        command=["python", "train.py"],
        interval_ms=training.interval_ms,
        rules=[],
    )
    writers = [Writer(folder, f"node{n}") for n in range(training.nodes)]
    for n, writer in enumerate(writers):
        _facts(folder, writer.node, n, training, end_ns)
    ranks = np.array_split(np.arange(training.ranks), training.nodes)
    random = np.random.default_rng(training.seed)
    step = 0
    steps_at = START_NS + 5 * 10**9
    chunk_ns = training.chunk_s * 10**9
    for begin in range(START_NS, end_ns, chunk_ns):
        until = min(begin + chunk_ns, end_ns)
        count = max(0, int((until - 2 * 10**9 - steps_at) / (training.step_s * 1e9)))
        durations = _durations(random, training, count, step)
        for writer, mine in zip(writers, ranks, strict=True):
            _write_samples(writer, random, training, begin, until)
            _write_steps(writer, random, training, steps_at, step, durations, mine)
        step += count
        steps_at += int(durations.sum())
    for writer in writers:
        if not writer.close():
            raise OSError(f"the job could not be written: {writer.fault}")
    folder.update(end=end_ns, status="Completed", exit_code=0)
    if training.compacted:
        compact(folder)
    return folder


def _facts(folder: JobFolder, node: str, number: int, training: Training, end_ns: int) -> None:
    gpus = [{"name": "GPU", "memory_bytes": 80 * 2**30} for _ in range(training.gpus)]
    facts = {"node": node, "number": number, "cpus": training.cores, "memory_bytes": 2**40, "gpus": gpus}
    folder.write_node(node, {**facts, "heartbeat": end_ns})


def _durations(random: np.random.Generator, training: Training, count: int, first: int) -> np.ndarray:
    """Durations of the steps in nanoseconds, the same for all ranks: they wait for one another."""
    mean = training.step_s * 1e9
    durations = mean * random.normal(1.0, 0.01, count)
    numbers = first + np.arange(count)
    durations[numbers % training.slow_every == training.slow_every - 1] *= 3
    durations[numbers < 3] *= 8
    return durations.astype(np.int64)


def _write_steps(
    writer: Writer,
    random: np.random.Generator,
    training: Training,
    at: int,
    first: int,
    durations: np.ndarray,
    ranks: np.ndarray,
) -> None:
    count = len(durations)
    if count == 0:
        return
    begins = at + np.concatenate([[0], np.cumsum(durations)[:-1]])
    numbers = (first + np.arange(count)).astype(np.int32)
    normal = np.minimum(durations, training.step_s * 1e9)
    per_rank = []
    for rank in ranks:
        parts = {
            part: np.round(normal * share * random.normal(1.0, 0.02, count)).astype(np.int64)
            for part, share in training.parts.items()
        }
        # What makes a step slow is waiting for data, so that its parts still add up to it.
        parts["data_loading"] += np.maximum(durations - normal, 0).astype(np.int64)
        begin = begins + random.integers(0, 200_000, count)
        per_rank.append((rank, begin, parts))
    _put_steps(writer, numbers, durations, per_rank)
    if training.spans:
        _put_spans(writer, numbers, durations, per_rank)
    generated_tensors.write(writer, training.tensors, ranks, numbers, begins + durations)
    loss = 2.5 * np.exp(-numbers / 50_000) + random.normal(0, 0.05, count)
    writer.append(
        "scalars",
        {
            "time": begins + durations,
            "rank": np.full(count, ranks[0]),
            "step": numbers,
            "mode": (np.zeros(count, np.int8), ["train"]),
            "name": (np.zeros(count, np.int8), ["loss"]),
            "value": loss.astype(np.float32).astype(np.float64),
        },
    )


def _put_steps(writer: Writer, numbers: np.ndarray, durations: np.ndarray, per_rank: list[Any]) -> None:
    columns: dict[str, np.ndarray] = {
        "time": np.concatenate([begin for _, begin, _ in per_rank]),
        "duration": np.concatenate([durations for _ in per_rank]),
        "rank": np.concatenate([np.full(len(numbers), rank) for rank, _, _ in per_rank]),
        "step": np.concatenate([numbers for _ in per_rank]),
    }
    columns["other"] = columns["duration"].copy()
    for part in BREAKDOWN[:-1]:
        absent = np.zeros(len(numbers), dtype=np.int64)
        columns[part] = np.concatenate([parts.get(part, absent) for _, _, parts in per_rank])
        columns["other"] -= columns[part]
    order = np.argsort(columns["time"], kind="stable")
    codes = np.zeros(len(order), np.int8)
    writer.append("steps", {**{n: c[order] for n, c in columns.items()}, "mode": (codes, ["train"])})


def _put_spans(writer: Writer, numbers: np.ndarray, durations: np.ndarray, per_rank: list[Any]) -> None:
    phases = ["step", *PARTS]
    names = ["", "DataLoader", "copy", "Model", "", "", "AdamW"]
    time_, duration, rank_, step, phase, value = [], [], [], [], [], []
    for rank, begin, parts in per_rank:
        at = begin.copy()
        for code, name in enumerate(phases):
            takes = durations if name == "step" else parts[name]
            time_.append(begin if name == "step" else at)
            duration.append(takes)
            step.append(numbers)
            rank_.append(np.full(len(numbers), rank))
            phase.append(np.full(len(numbers), code, np.int8))
            worth = {"data_loading": 0.0, "h2d": 19_267_584.0}.get(name, np.nan)
            value.append(np.full(len(numbers), worth))
            if name != "step":
                at = at + takes + 20_000
    at_once = np.concatenate(time_)
    order = np.argsort(at_once, kind="stable")
    codes = np.concatenate(phase)[order]
    writer.append(
        "spans",
        {
            "time": at_once[order],
            "duration": np.concatenate(duration)[order],
            "rank": np.concatenate(rank_)[order],
            "step": np.concatenate(step)[order],
            "mode": (np.zeros(len(codes), np.int8), ["train"]),
            "phase": (codes, phases),
            "name": (codes, names),
            "value": np.concatenate(value)[order],
        },
    )


def _write_samples(
    writer: Writer, random: np.random.Generator, training: Training, begin: int, until: int
) -> None:
    ticks = np.arange(begin, until, training.interval_ms * 10**6)
    ticks = ticks + random.integers(0, 2_000_000, len(ticks))
    series = list(_series(random, training, len(ticks)))
    devices = sorted({device for device, _, _ in series})
    metrics = sorted({metric for _, metric, _ in series})
    device = np.array([devices.index(d) for d, _, _ in series], dtype=np.int32)
    metric = np.array([metrics.index(m) for _, m, _ in series], dtype=np.int32)
    writer.append(
        "samples",
        {
            "time": np.repeat(ticks, len(series)),
            "device": (np.tile(device, len(ticks)), devices),
            "metric": (np.tile(metric, len(ticks)), metrics),
            "value": np.stack([values for _, _, values in series], axis=1).ravel(),
        },
    )


def _series(random: np.random.Generator, training: Training, n: int) -> Iterator[tuple[str, str, Any]]:
    """Yield device, metric and readings of every series that an agent samples."""
    ticks = training.interval_ms / 10

    def share(mean: float, spread: float = 8.0) -> np.ndarray:
        total = ticks + random.integers(-1, 2, n)
        busy = np.clip(np.round(random.normal(mean, spread, n) / 100 * total), 0, total)
        return 100 * busy / total

    def rate(mean: float) -> np.ndarray:
        return np.round(random.gamma(4, mean / 4, n)) / (
            training.interval_ms / 1000 + random.normal(0, 1e-4, n)
        )

    for core in range(training.cores):
        yield f"cpu{core}", "cpu.core.util", share(35 + core % 20)
        yield f"cpu{core}", "cpu.core.iowait", share(0.0, 1.0)
    yield "", "cpu.util", share(45, 2)
    yield "", "cpu.iowait", share(1, 1)
    yield "", "cpu.load1", np.round(random.normal(40, 1, n), 2)
    used = np.round(np.cumsum(random.normal(0, 50, n)) + 3e7) * 4096
    yield "", "mem.used", used
    yield "", "mem.used_pct", 100 * used / 2**40
    yield "", "mem.available", 2**40 - used
    yield "", "disk.iops", rate(400)
    yield "", "disk.read_bytes", rate(1000) * 4096
    yield "", "disk.write_bytes", rate(100) * 4096
    yield "", "net.rx", rate(1e6)
    yield "", "net.tx", rate(1e6)
    for kind in ("cpu", "io", "mem"):
        yield "", f"psi.{kind}", np.round(np.abs(random.normal(0, 1, n)), 2)
    for role, mean in (("trainer", 300.0), ("workers", 900.0), ("other", 1.0)):
        yield role, "proc.cpu", share(mean / 10) * 10
        yield role, "proc.rss", np.round(random.normal(5e6, 100, n)) * 4096
    yield "", "agent.cpu", share(1.0, 0.5)
    yield "", "agent.rss", np.full(n, 80 * 2.0**20)
    for gpu in range(training.gpus):
        device = f"gpu{gpu}"
        yield device, "gpu.util", np.clip(np.round(random.normal(88, 6, n)), 0, 100)
        yield device, "gpu.mem.busy", np.clip(np.round(random.normal(50, 5, n)), 0, 100)
        yield device, "gpu.mem.used", np.full(n, 61_203_283_968.0)
        yield device, "gpu.mem.used_pct", np.full(n, 71.25)
        yield device, "gpu.temp", np.round(random.normal(65, 1, n))
        yield device, "gpu.power", np.round(random.normal(600, 20, n), 3)
        yield device, "gpu.power_limit", np.full(n, 700.0)
        yield device, "gpu.clock_sm", np.round(random.normal(1755, 20, n) / 15) * 15
        yield device, "gpu.clock_sm_max", np.full(n, 1980.0)
        yield device, "gpu.throttle_reasons", np.where(random.random(n) < 0.02, 4.0, 0.0)
        yield device, "gpu.pcie_rx", np.round(random.gamma(2, 1e5, n)) * 1024
        yield device, "gpu.pcie_tx", np.round(random.gamma(2, 1e5, n)) * 1024
        yield device, "gpu.ecc_uncorrected", np.zeros(n)


def main() -> None:
    """Write a job as the command line says, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    parser.add_argument("--job", default="long")
    parser.add_argument("--hours", type=float, default=12)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--step-s", type=float, default=0.3, help="seconds of a step")
    parser.add_argument("--no-spans", action="store_true")
    parser.add_argument("--tensors", type=int, default=0, help="saved by each rank every 100 steps")
    given = parser.parse_args()
    began = time.perf_counter()
    sizes = {name: getattr(given, name) for name in ("hours", "ranks", "nodes", "tensors", "step_s")}
    training = Training(**sizes, spans=not given.no_spans)
    folder = generate(given.store, given.job, training)
    size = sum(entry.size for entry in folder.place.files())
    print(f"{folder.url}: {size / 2**20:.0f} MiB in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
