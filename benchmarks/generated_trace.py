"""A made-up trace of a distributed training: operators, launches, kernels, copies, waits, counters, flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.store import job
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.store.job import JobFolder

START_NS = 1_780_000_000 * 10**9
STEP_NS = 80_000_000
MAIN, AUTOGRAD = 4101, 4177
"""Threads: the one that trains, and the one that goes backward."""
COMPUTE, COLLECTIVES = 7, 20
"""Streams."""

Rows = dict[str, list[tuple[Any, ...]]]


def step(layers: int) -> Rows:
    """Write down one step of one rank: for each table rows of (begin, duration, name, what more it has)."""
    rows: Rows = {t: [] for t in ("operators", "launches", "kernels", "memory_operations", "syncs", "flows")}
    operators, launches, kernels = rows["operators"], rows["launches"], rows["kernels"]
    gap = STEP_NS // (layers * 8)
    now, gpu, correlation = 1_000_000, 1_200_000, 1
    operators.append((0, STEP_NS - 20_000, "ProfilerStep", MAIN, "annotation"))
    rows["memory_operations"].append((gpu, 300_000, "h2d", 1))
    launches.append((now, 20_000, "cudaMemcpyAsync", MAIN, 1))
    now, gpu = now + gap, gpu + 320_000

    def run(at: int, thread: int, name: str, long: int, stream: int = COMPUTE) -> None:
        nonlocal correlation, gpu
        correlation += 1
        launches.append((at, 6_000, "cudaLaunchKernel", thread, correlation))
        gpu = max(gpu, at + 8_000)
        kernels.append((gpu, long, name, stream, correlation))
        gpu += long + 1_500

    for layer in range(layers):
        operators.append((now, gap - 4_000, f"nn.Module: Linear_{layer}", MAIN, "module"))
        operators.append((now + 3_000, gap - 10_000, "aten::linear", MAIN, "operator"))
        operators.append((now + 6_000, gap - 16_000, "aten::addmm", MAIN, "operator"))
        run(now + 9_000, MAIN, f"ampere_sgemm_{32 * (1 + layer % 4)}x128_tn", gap - 30_000)
        now += gap
    turned = now
    for layer in reversed(range(layers)):
        whole = 3 * gap
        operators.append(
            (now, whole - 5_000, "autograd::evaluate_function: AddmmBackward0", AUTOGRAD, "operator")
        )
        operators.append((now + 4_000, whole - 14_000, "AddmmBackward0", AUTOGRAD, "operator"))
        begin = 1_000_000 + gap * (1 + layer) + 6_000
        rows["flows"].append((begin, now + 4_000 - begin, "forward_backward", MAIN, AUTOGRAD))
        for half in range(2):
            at = now + 8_000 + half * (gap + gap // 3)
            operators.append((at, gap, "aten::mm", AUTOGRAD, "operator"))
            run(at + 3_000, AUTOGRAD, f"ampere_sgemm_128x{64 * (1 + half)}_nn", gap)
        if layer % 6 == 0:
            run(
                now + whole - 12_000,
                AUTOGRAD,
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                8 * gap,
                COLLECTIVES,
            )
            gpu -= 8 * gap + 1_500  # the other stream does not wait for it
        now += whole
    operators.append((turned, now - turned, "backward", MAIN, "annotation"))
    small = max(8_000, (STEP_NS - now - 4 * gap) // (layers + 1))
    operators.append((now + 1_000, small * layers, "Optimizer.step#Adam.step", MAIN, "annotation"))
    for layer in range(layers):
        operators.append(
            (now + 2_000 + layer * small, small - 1_000, "aten::_foreach_add_", MAIN, "operator")
        )
        run(now + 3_000 + layer * small, MAIN, "multi_tensor_apply_kernel", small - 2_500)
    now += 3_000 + small * layers
    rows["syncs"].append((now, max(1_000, STEP_NS - now - 60_000), "cudaStreamSynchronize", MAIN))
    return rows


def trace(events: int, *, ranks: int = 8, layers: int = 48) -> Iterator[tuple[str, dict[str, Any]]]:
    """Make up a trace of about so many events; yields tables in pieces, as `Writer.append` takes them."""
    template = step(layers)
    steps = max(1, events // (ranks * sum(map(len, template.values()))))
    random = np.random.default_rng(0)
    columns = {table: [np.array(c) for c in zip(*rows, strict=True)] for table, rows in template.items()}
    piece = max(1, 200_000 // max(map(len, template.values())))
    for rank in range(ranks):
        yield "tracks", _tracks(rank)
        for first in range(0, steps, piece):
            number = np.arange(first, min(first + piece, steps))
            speed = random.uniform(0.9, 1.0, len(number))
            for table, given in columns.items():
                yield table, _table(table, given, number, speed, rank)
        times = START_NS + np.arange(steps * 20) * (STEP_NS // 20)
        memory = 2e10 + 1e10 * np.sin(np.arange(steps * 20) / 20) + random.normal(0, 1e7, steps * 20)
        yield (
            "counters",
            {
                "time": times,
                "rank": np.full(len(times), rank),
                "process": np.full(len(times), 1000 + rank),
                "name": [f"memory/gpu{rank}"] * len(times),
                "value": memory,
            },
        )


def _tracks(rank: int) -> dict[str, Any]:
    return {
        "time": [START_NS] * 5,
        "rank": [rank] * 5,
        "process": [1000 + rank] * 5,
        "thread": [-1, MAIN, AUTOGRAD, COMPUTE, COLLECTIVES],
        "device": [-1, -1, -1, rank, rank],
        "kind": ["process", "thread", "thread", "stream", "stream"],
        "name": ["python train.py", "main", "pt_autograd_0", "stream 7", "stream 20 nccl"],
        "position": [0, 0, 1, 0, 1],
    }


def _table(table: str, given: list[Any], number: Any, speed: Any, rank: int) -> dict[str, Any]:
    each = len(given[0])
    rows = each * len(number)
    scale = np.repeat(speed, each)
    offset = START_NS + np.repeat(number, each) * STEP_NS
    values, codes = np.unique(given[2], return_inverse=True)
    # Begins and ends are rounded alike, so that what is nested stays so, and arrows end where they should.
    begins, ends = (
        (np.tile(moment, len(number)) * scale).astype(np.int64) for moment in (given[0], given[0] + given[1])
    )
    found: dict[str, Any] = {
        "time": offset + begins,
        "duration": ends - begins,
        "rank": np.full(rows, rank),
    }
    name = (np.tile(codes, len(number)), values.tolist())
    if table != "flows":
        found["step"] = np.repeat(number, each)
    what = [np.tile(column, len(number)) for column in given[3:]]
    first = np.repeat(number * 4096, each)
    if table == "operators":
        found |= {"name": name, "thread": what[0], "kind": what[1].tolist()}
    elif table == "launches":
        found |= {"name": name, "thread": what[0], "correlation": first + what[1]}
    elif table == "kernels":
        nccl = np.char.startswith(given[2], "nccl")
        kind = (np.tile(nccl.astype(int), len(number)), ["compute", "communication"])
        found |= {"name": name, "device": np.full(rows, rank), "stream": what[0]}
        which = (kind[0], ["", "allreduce"])
        found |= {"correlation": first + what[1], "kind": kind, "collective": which}
    elif table == "memory_operations":
        found |= {"kind": name, "device": np.full(rows, rank), "stream": np.full(rows, COMPUTE)}
        found |= {
            "correlation": first + what[0],
            "bytes": np.full(rows, 1 << 20),
            "memory": ["pinned"] * rows,
        }
    elif table == "syncs":
        found |= {"name": name, "thread": what[0], "kind": ["stream"] * rows}
    else:
        found |= {"kind": name, "thread": what[0], "target": what[1]}
    return found


def write(store: str, name: str, events: int, *, ranks: int = 8, layers: int = 48) -> JobFolder:
    """Write such a trace as a job that has ended."""
    folder = job.create(
        store, name, command=["python", "train.py"], interval_ms=500, rules=[], now_ns=START_NS
    )
    writer = Writer(folder, "n0")
    for table, columns in trace(events, ranks=ranks, layers=layers):
        writer.append(table, columns)
    writer.close()
    folder.update(end=START_NS + events, status="Completed")
    return folder
