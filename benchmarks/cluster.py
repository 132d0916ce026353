"""Write what the agents of a cluster would write, with one bad component, and measure whether it is named.

Each fault is a job of its own: a slow rank, a slow node, a bad network card, a GPU with memory errors, clocks
that disagree, a restart by the launcher, or none. All ranks wait for one another in a collective. For each
job it prints rows, time and memory of rules and describe, and the component that is named. `--pages` asks a
dashboard for each page of the job, too. `--machines` measures how well nodes are told apart by their metrics
alone: 1,000 machines with 20 metrics each, as in Minder's study.

    python benchmarks/cluster.py --nodes 125 --steps 150 --pages
    python benchmarks/cluster.py --machines
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import tempfile
import time
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import numpy as np

from dashboard import HEADERS, serving
from holter.analysis.machine.outlier_nodes import outlier_nodes
from holter.evaluation import evaluate
from holter.pages.job import pages
from holter.store import job
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.document.description import describe

if TYPE_CHECKING:
    from holter.store.job import JobFolder

START = 1_780_000_000 * 10**9
MS = 1_000_000
RANKS = 8
"""Of each node."""
STEP_MS = {"data_loading": 15.0, "forward": 120.0, "backward": 240.0, "optimizer": 25.0}
SECONDS = 400
"""Length of the readings: rules judge minutes."""
EVERY_S = 5
USUAL = {
    "gpu.util": 92.0,
    "gpu.power": 620.0,
    "gpu.temp": 62.0,
    "gpu.clock_sm": 1755.0,
    "gpu.mem.used_pct": 71.0,
    "gpu.pcie_rx": 4e8,
}
USUAL_NODE = {"cpu.util": 35.0, "net.tx": 2e9, "net.rx": 2e9, "mem.used_pct": 40.0, "psi.cpu": 2.0}
FAULTS = ("none", "slow rank", "slow node", "bad network card", "memory errors", "clocks", "restart")
EXPECTED = {
    "slow rank": ("StragglerRank", "rank"),
    "slow node": ("StragglerRank", "node"),
    "bad network card": ("OutlierNode", "node"),
    "memory errors": ("HardwareError", "node"),
    "clocks": ("ClockSkew", "node"),
}
"""The rule that has to name the component, and the entry of its issue."""
RESTART_S = 60
"""From the last step of the first attempt to the first of the second, at half of the steps."""
RULES = ("StragglerRank", "OutlierNode", "HardwareError", "ClockSkew", "LoadBalancing")


def write(store: str, name: str, fault: str, nodes: int, steps: int) -> tuple[JobFolder, str]:
    """Write one job; returns it and the name of its bad component."""
    random = np.random.default_rng(len(fault))
    bad_node, bad_rank = nodes // 3, (nodes // 3) * RANKS + 5
    ranks = nodes * RANKS
    folder = job.create(
        store, name, command=["torchrun", "train.py"], interval_ms=5000, rules=[], now_ns=START
    )
    folder.update(framework={"name": "pytorch", "version": "2", "device": "cuda"})
    own = {part: mean * random.normal(1, 0.02, (ranks, steps)) for part, mean in STEP_MS.items()}
    if fault == "slow rank":
        own["backward"][bad_rank] *= 1.3
    if fault == "slow node":
        own["data_loading"][bad_node * RANKS : (bad_node + 1) * RANKS] *= 8
    total = np.sum(list(own.values()), axis=0)
    wall = (total.max(axis=0) + 20) * MS
    begin = START + 5_000 * MS + np.concatenate([[0], np.cumsum(wall)[:-1]]).astype(np.int64)
    numbers = np.arange(steps, dtype=np.int32)
    if fault == "restart":
        begin[steps // 2 :] += RESTART_S * 10**9
        numbers[steps // 2 :] -= steps // 2
    last = int(begin[-1] + wall[-1])
    end = max(last, START + SECONDS * 10**9)
    for node in range(nodes):
        called = f"node{node:04d}"
        ahead = 3_000 * MS if fault == "clocks" and node == bad_node else 0
        writer = Writer(folder, called)
        gpus = [
            {"device": f"gpu{at}", "name": "NVIDIA H100", "memory_bytes": 80 * 2**30} for at in range(RANKS)
        ]
        facts = {"cpus": 96, "memory_bytes": 2**40, "gpus": gpus, "status": "Completed", "end": end}
        folder.write_node(called, {**facts, "heartbeat": end})
        _steps(writer, random, node, own, wall, begin + ahead, numbers)
        if fault == "restart":
            _processes(writer, node, (START, int(begin[steps // 2])))
        _samples(writer, random, fault if node == bad_node else "none", ahead)
        if not writer.close():
            raise OSError(f"the job could not be written: {writer.fault}")
    folder.update(end=end, status="Completed", exit_code=0)
    return folder, f"rank {bad_rank}" if fault == "slow rank" else f"node{bad_node:04d}"


def _processes(writer: Writer, node: int, starts: tuple[int, ...]) -> None:
    """Write the event of each process that one torchrun started, once for each attempt."""
    rows = [
        (start, rank, json.dumps({"process": f"{rank}-{start}", "role": "trainer", "run": "torchrun-1"}))
        for start in starts
        for rank in range(node * RANKS, (node + 1) * RANKS)
    ]
    none = np.zeros(len(rows), np.int8)
    writer.append(
        "events",
        {
            "time": np.array([row[0] for row in rows]),
            "rank": np.array([row[1] for row in rows], np.int32),
            "kind": (none, ["process"]),
            "name": (none, [""]),
            "detail": np.array([row[2] for row in rows], dtype=object),
        },
    )


def _steps(
    writer: Writer,
    random: np.random.Generator,
    node: int,
    own: dict[str, Any],
    wall: Any,
    begin: Any,
    numbers: Any,
) -> None:
    """Write the spans of one node's ranks: the parts of a step, then the collective until all are there."""
    steps = len(wall)
    phases = ["step", *STEP_MS, "communication"]
    columns: dict[str, list[Any]] = {
        name: [] for name in ("time", "duration", "rank", "step", "phase", "value")
    }
    for rank in range(node * RANKS, (node + 1) * RANKS):
        at = begin + random.integers(0, 300_000, steps)
        until = begin + wall.astype(np.int64)
        rows = [(at, until - at)]
        for part in STEP_MS:
            takes = (own[part][rank] * MS).astype(np.int64)
            rows.append((at, takes))
            at = at + takes
        rows.append((at, np.maximum(until - at, 0)))
        for code, (when, takes) in enumerate(rows):
            columns["time"].append(when)
            columns["duration"].append(takes)
            columns["rank"].append(np.full(steps, rank, np.int32))
            columns["step"].append(numbers)
            columns["phase"].append(np.full(steps, code, np.int8))
            columns["value"].append(np.full(steps, np.nan))
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(whole["time"], kind="stable")
    rows_ = {name: values[order] for name, values in whole.items()}
    none = np.zeros(len(order), np.int8)
    writer.append(
        "spans",
        {
            **rows_,
            "worker": np.full(len(order), -1, np.int16),
            "thread": np.zeros(len(order), np.int16),
            "phase": (rows_["phase"], phases),
            "mode": (none, ["train"]),
            "name": (none, [""]),
        },
    )


def _samples(writer: Writer, random: np.random.Generator, fault: str, ahead: int) -> None:
    count = SECONDS // EVERY_S
    ticks = START + ahead + np.arange(1, count + 1) * EVERY_S * 10**9
    change = {
        "bad network card": {"net.tx": 0.4, "net.rx": 0.4},
        "slow node": {"cpu.util": 2.5, "psi.cpu": 20.0},
    }
    series: list[tuple[str, str, Any]] = []
    for metric, usual in USUAL_NODE.items():
        factor = change.get(fault, {}).get(metric, 1.0)
        series.append(("", metric, usual * factor * random.normal(1, 0.05, count)))
    for gpu in range(RANKS):
        for metric, usual in USUAL.items():
            series.append((f"gpu{gpu}", metric, usual * random.normal(1, 0.03, count)))
        errors = (
            np.where(np.arange(count) > count // 2, 3.0, 0.0)
            if fault == "memory errors" and gpu == 2
            else 0.0
        )
        series.append((f"gpu{gpu}", "gpu.ecc_uncorrected", np.zeros(count) + errors))
    devices = sorted({device for device, _, _ in series})
    metrics = sorted({metric for _, metric, _ in series})
    writer.append(
        "samples",
        {
            "time": np.repeat(ticks, len(series)),
            "device": (
                np.tile(np.array([devices.index(one[0]) for one in series], np.int32), count),
                devices,
            ),
            "metric": (
                np.tile(np.array([metrics.index(one[1]) for one in series], np.int32), count),
                metrics,
            ),
            "value": np.stack([one[2] for one in series], axis=1).ravel(),
        },
    )


def measure(store: str, fault: str, nodes: int, steps: int) -> None:
    """Write one job, judge and describe it, and print what it took and what was named."""
    folder, bad = write(store, fault.replace(" ", "-"), fault, nodes, steps)
    trial = Trial(folder)
    rows = sum(trial.rows(table) for table in ("spans", "samples"))
    size = sum(entry.size for entry in folder.place.files())
    at = [time.process_time()]
    evaluate(folder, RULES, record=True)
    at.append(time.process_time())
    told = describe(Trial(folder))
    at.append(time.process_time())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    named = [
        (rule["name"], f"rank {issue['rank']}" if issue.get("rank") is not None else str(issue.get("node")))
        for rule in told["rules"]
        for issue in rule["issues"]
        if issue["severity"] != "info"
    ]
    wanted = EXPECTED.get(fault)
    right = (not named) if wanted is None else any(one == (wanted[0], bad) for one in named)
    if fault == "restart":
        counts = [attempt["steps"] for attempt in told["job"]["attempts"]]
        right = right and counts == [steps // 2, steps - steps // 2]
        named += [("attempts", str(counts))]
    print(
        f"{fault:17} {rows:>10,} rows {size / 2**20:6.0f} MiB  rules {at[1] - at[0]:6.1f} s  "
        f"describe {at[2] - at[1]:5.1f} s  peak {memory:5.0f} MiB  "
        f"{'named' if right else 'NOT NAMED'}: {sorted(set(named)) or 'nothing'}  "
        f"verdict {told['verdict']['suspect']}"
    )


def ask(store: str, name: str) -> None:
    """Ask a dashboard for each page of a job twice; print time and bytes."""
    with serving(store) as (address, server):
        for page in pages():
            took = []
            for _ in range(2):
                began = time.perf_counter()
                shown = urlopen(Request(f"{address}/jobs/{name}/{page}", headers=HEADERS)).read()
                took.append(time.perf_counter() - began)
            whole = len(gzip.decompress(shown)) if shown[:2] == b"\x1f\x8b" else len(shown)
            print(
                f"  page {page:12} {took[0]:6.2f} s, again {took[1]:5.2f} s, "
                f"{len(shown) / 1024:7.1f} KiB sent, {whole / 1024:8.1f} KiB of HTML, "
                f"server {server.memory_info().rss / 2**20:5.0f} MiB"
            )


def machines(rounds: int) -> None:
    """Tell the bad one of 1,000 machines by 20 metrics; print precision, recall and time."""
    hits = misses = wrong = 0
    spent = 0.0
    for number in range(rounds):
        random = np.random.default_rng(number)
        count, metrics = 1000, [f"metric{at}" for at in range(20)]
        ticks = np.arange(300) * 10**9
        bad = int(random.integers(count)) if number % 5 else None  # a fifth of the rounds is healthy
        # A fault shows in some metrics: a fifth to a half lower or higher, after 30 s.
        shows = random.choice(metrics, int(random.integers(1, 6)), replace=False)
        readings: dict[str, dict[str, Any]] = {}
        for metric in metrics:
            usual, noise = float(random.uniform(20, 2000)), float(random.uniform(0.02, 0.1))
            common = 1 + 0.1 * np.sin(ticks / random.uniform(5, 60) / 1e9)  # what all machines do together
            own = random.normal(1, 0.01, count)
            readings[metric] = {}
            for node in range(count):
                value = usual * common * own[node] * random.normal(1, noise, len(ticks))
                if node == bad and metric in shows:
                    change = random.uniform(0.25, 0.6) * random.choice((-1, 1))
                    value = np.where(ticks > 30e9, value * (1 + change), value)
                readings[metric][f"m{node}"] = [(ticks, value)]
        began = time.process_time()
        found = {one.node for one in outlier_nodes(readings, 0, 300 * 10**9)}
        spent += time.process_time() - began
        hits += f"m{bad}" in found
        misses += bad is not None and f"m{bad}" not in found
        wrong += len(found - {f"m{bad}"})
    precision, recall = hits / max(hits + wrong, 1), hits / max(hits + misses, 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    print(
        f"1,000 machines x 20 metrics x 300 s, {rounds} rounds: "
        f"precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}, {spent / rounds:.2f} s of CPU a round"
    )


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=125)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--fault", choices=FAULTS, action="append")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--machines", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    if given.machines:
        machines(given.rounds)
        return
    print(f"{given.nodes} nodes, {given.nodes * RANKS:,} ranks, {given.steps} steps")
    with tempfile.TemporaryDirectory(prefix="holter-cluster-") as store:
        for fault in given.fault or FAULTS:
            measure(store, fault, given.nodes, given.steps)
            if given.pages:
                ask(store, fault.replace(" ", "-"))


if __name__ == "__main__":
    main()
