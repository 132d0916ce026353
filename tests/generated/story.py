"""The worked case "which of four suspects?" and its siblings, generated: a job as its tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.generated.scenario import SCENARIOS, Loader, Scenario

from holter.schema.table import Table

NODE = "node-0"
START_NS = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
_ORDER = ("data_loading", "h2d", "forward", "loss", "backward", "optimizer", "checkpoint", "eval", "other")
_FRAMES = {
    "read": ("S3File.read (fsspec/spec.py:1941)",),
    "decode": ("read_row_group (pyarrow/parquet/core.py:467)",),
    "transform": (
        "Compose.__call__ (augmentation/compose.py:20)",
        "MixHistory.__call__ (recommender/augment.py:88)",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Story:
    """A finished job: everything that a store would hold of it."""

    name: str
    samples: Table
    spans: Table
    scalars: Table
    events: Table
    nodes: dict[str, dict[str, Any]]
    manifest: dict[str, Any]
    epoch_h: float | None


def story(
    name: str,
    *,
    ranks: int = 8,
    cores: int = 96,
    first_step: int = 1000,
    steps: int = 500,
    samples: int = 1700,
    interval_ms: int = 500,
    seed: int = 0,
) -> Story:
    """Generate the story `name`: one of `SCENARIOS`; the same arguments give the same tables.

    The system is sampled over the whole job; spans exist for `steps` steps from `first_step` on, in a window
    that begins a quarter into the job. Every rank has a GPU of its own.
    """
    if name not in SCENARIOS:
        raise KeyError(f"no story {name!r}; there are: {', '.join(SCENARIOS)}")
    scenario = SCENARIOS[name]
    random = np.random.default_rng(seed)
    job_ns = max(samples * interval_ms * 1_000_000, int(steps * scenario.step_s * 1.5 * SECOND))
    window_ns = START_NS + job_ns // 4
    trained = [_rank(scenario, rank, ranks, first_step, steps, window_ns, seed) for rank in range(ranks)]
    spans = Table.concat(trained).sorted("time")
    end_ns = max(START_NS + job_ns, int((spans["time"] + spans["duration"]).max()))
    facts = _loader_facts(scenario.loader)
    process = {"world_size": ranks, "role": "trainer", "python": "3.11.7"}
    events = Table.of(
        "events",
        [
            {
                "time": START_NS,
                "rank": r,
                "kind": kind,
                "name": kind,
                "detail": json.dumps(detail),
                "node": NODE,
            }
            for r in range(ranks)
            for kind, detail in (("process", {**process, "rank": r, "local_rank": r}), ("loader", facts))
        ],
    )
    gpus = [{"name": "A100-SXM4-40GB", "memory_bytes": 40 * 2**30} for _ in range(ranks)]
    return Story(
        name=name,
        samples=_samples(scenario, random, ranks, cores, samples, interval_ms),
        spans=spans,
        scalars=_scalars(spans, random),
        events=events,
        nodes={NODE: {"node": NODE, "cpus": cores, "memory_bytes": 1152 * 2**30, "gpus": gpus}},
        manifest={
            "schema": 1,
            "name": f"recommender-{name}",
            "status": "Completed",
            "command": ["torchrun", "--nproc-per-node", str(ranks), "train.py"],
            "start": START_NS,
            "end": end_ns,
            "exit_code": 0,
            "signal": None,
            "failure": None,
            "interval_ms": interval_ms,
        },
        epoch_h=scenario.epoch_h,
    )


def _rank(
    scenario: Scenario, rank: int, ranks: int, first: int, count: int, window_ns: int, seed: int
) -> Table:
    """Spans of one rank: the steps themselves and what its loader's workers did."""
    # Ranks train in step with one another, so all of them see the same noise.
    shake = np.random.default_rng([seed, 1]).normal(1.0, 0.01, count).clip(0.95, 1.05)
    seconds = {part: scenario.step_s * share / 100 for part, share in scenario.shares.items()}
    delay = sum(extra for _, extra in scenario.slow.values())
    if rank in scenario.slow:
        part, extra = scenario.slow[rank]
        seconds[part] += extra
        delay -= extra
    seconds["communication"] = seconds.get("communication", 0.0) + delay
    lengths = {part: (shake * s * SECOND).astype(np.int64) for part, s in seconds.items()}
    duration = np.sum(list(lengths.values()), axis=0)
    begin = window_ns + np.concatenate([[0], np.cumsum(duration)[:-1]])
    number = np.arange(first, first + count)
    tables = [_spans("step", begin, duration, rank, number)]
    cursor = begin.copy()
    taken = begin
    for part in _ORDER:
        length = lengths.get(part, np.zeros(count, dtype=np.int64))
        if part == "backward":
            waiting = lengths["communication"]
            tables.append(_spans("communication", cursor + length, waiting, rank, number, name="all_reduce"))
            length = length + waiting
        if part != "other":
            value = 0.0 if part == "data_loading" else np.nan
            tables.append(_spans(part, cursor, length, rank, number, value=value))
        cursor = cursor + length
        if part == "data_loading":
            taken = cursor
    tables += _worker_spans(scenario.loader, rank, taken)
    return Table.concat([t.where(t["duration"] > 0) for t in tables])


def _worker_spans(loader: Loader, rank: int, taken: Any) -> list[Table]:
    """Spans of the workers: the batch that was taken at each of these moments, and its stack samples."""
    fetch, collate = int(loader.fetch_s * SECOND), int(loader.collate_s * SECOND)
    worker = np.arange(len(taken)) % loader.workers
    if loader.ahead:
        begin, length = taken, np.full(len(taken), fetch)
    else:
        earlier = np.concatenate([taken[: loader.workers] - fetch, taken[: -loader.workers]])
        begin, length = earlier, taken - earlier
    none = np.full(len(taken), -1)
    where = {"rank": rank, "number": none, "worker": worker, "mode": "global"}
    tables = [
        _spans("fetch", begin, length, value=256.0, **where),
        _spans("collate", begin + length - collate, np.full(len(taken), collate), **where),
    ]
    samples = 10
    stages = list(loader.stages)
    edges = np.cumsum([loader.stages[stage] for stage in stages]) / sum(loader.stages.values())
    for k in range(samples):
        each = (length - collate) // samples
        # A low-discrepancy sequence: any stretch of samples holds the stages in their proportion.
        draw = ((np.arange(len(taken)) * samples + k) * 0.6180339887498949) % 1.0
        stage = np.searchsorted(edges, draw, side="right").clip(max=len(stages) - 1)
        frames = [("ClickDataset.__getitem__ (recommender/data.py:41)", *_FRAMES[s]) for s in stages]
        names = np.array([";".join(f) for f in frames], dtype=object)[stage]
        tables.append(_spans("stack", begin + k * each, each, name=names, **where))
    return tables


def _spans(
    phase: str,
    begin: Any,
    duration: Any,
    rank: int,
    number: Any,
    *,
    worker: Any = -1,
    mode: str = "train",
    name: Any = "",
    value: float = np.nan,
) -> Table:
    rows = len(begin)
    names = name if isinstance(name, np.ndarray) else np.full(rows, name, dtype=object)
    return Table(
        {
            "time": np.asarray(begin, dtype=np.int64),
            "duration": np.asarray(duration, dtype=np.int64),
            "rank": np.full(rows, rank, dtype=np.int32),
            "worker": np.broadcast_to(np.asarray(worker, dtype=np.int16), rows).copy(),
            "thread": np.zeros(rows, dtype=np.int16),
            "step": np.asarray(number, dtype=np.int32),
            "mode": np.full(rows, mode, dtype=object),
            "phase": np.full(rows, phase, dtype=object),
            "name": names,
            "value": np.full(rows, value),
            "node": np.full(rows, NODE, dtype=object),
        }
    )


def _samples(
    scenario: Scenario, random: np.random.Generator, gpus: int, cores: int, count: int, interval_ms: int
) -> Table:
    load = random.normal(scenario.cores, 3.0, (cores, count)).clip(1, 100)
    load[: scenario.busy_cores] = random.normal(98, 0.7, (scenario.busy_cores, count)).clip(0, 100)
    wait = random.normal(scenario.iowait, 0.3, (cores, count)).clip(0, 100)
    gpu = random.triangular(*scenario.gpu, (gpus, count))
    trainer = 100.0 if scenario.busy_cores else 60.0
    series: list[tuple[str, str, Any]] = [
        ("cpu.util", "", load.mean(axis=0)),
        ("cpu.iowait", "", wait.mean(axis=0)),
        ("mem.used_pct", "", random.normal(41, 0.2, count)),
        ("proc.count", "trainer", np.full(count, float(gpus))),
        ("proc.count", "worker", np.full(count, float(gpus * scenario.loader.workers))),
        ("proc.cpu", "trainer", random.normal(trainer * gpus * 0.985, 2, count)),
        *((metric, f"cpu{i}", matrix[i]) for i in range(cores)
          for metric, matrix in (("cpu.core.util", load), ("cpu.core.iowait", wait))),
    ]  # fmt: skip
    for i in range(gpus):
        series += [
            ("gpu.util", f"gpu{i}", gpu[i]),
            ("gpu.mem.used_pct", f"gpu{i}", random.normal(scenario.gpu_memory, 0.2, count)),
            ("gpu.temp", f"gpu{i}", random.normal(58, 1, count)),
            ("gpu.throttle_reasons", f"gpu{i}", np.zeros(count)),
        ]
    times = START_NS + np.arange(1, count + 1) * interval_ms * 1_000_000
    n = len(series)
    columns = {
        "time": np.repeat(times, n),
        "device": np.tile(np.array([device for _, device, _ in series], dtype=object), count),
        "metric": np.tile(np.array([metric for metric, _, _ in series], dtype=object), count),
        "value": np.stack([values for _, _, values in series], axis=1).ravel(),
        "node": np.full(n * count, NODE, dtype=object),
    }
    return Table(columns)


def _scalars(spans: Table, random: np.random.Generator) -> Table:
    ends = spans.where((spans["phase"] == "step") & (spans["rank"] == 0))
    rows = ends.rows
    return Table(
        {
            "time": ends["time"] + ends["duration"],
            "rank": np.zeros(rows, dtype=np.int32),
            "step": ends["step"],
            "mode": np.full(rows, "train", dtype=object),
            "name": np.full(rows, "loss", dtype=object),
            "value": 0.7 * np.exp(-np.arange(rows) / 2000) + random.normal(0, 0.01, rows),
            "node": np.full(rows, NODE, dtype=object),
        }
    )


def _loader_facts(loader: Loader) -> dict[str, Any]:
    return {
        "index": 0,
        "kind": "multi",
        "workers": loader.workers,
        "batch_size": 256,
        "pin_memory": loader.pin_memory,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": True,
        "dataset": "recommender.data.ClickDataset",
    }
