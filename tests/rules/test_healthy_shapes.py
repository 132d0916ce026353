"""Healthy trainings of many shapes: no rule warns, and states of long jobs stay small."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from tests.rules.overheads import every, spans
from tests.rules.tables import SECOND, START, steps

from holter.rules import Rule, Window, find
from holter.rules.engine.window import job_facts
from holter.schema.table import Table

NAMES = (
    "StragglerRank",
    "CheckpointStall",
    "NoCheckpoint",
    "GCPause",
    "RecompilationStorm",
    "BetweenStepOverhead",
    "H2DBound",
    "ThroughputRegression",
    "LoaderWorkerImbalance",
    "RankDataImbalance",
    "EvalOverhead",
    "ObserverOverhead",
    "FirstStepSlow",
    "ClockSkew",
    "Dataloader",
    "StepOutlier",
    "MaxInitializationTime",
    "StalledTraining",
)
NODES = {"n0": {"cpus": 8}}
USUAL = {"data_loading": 0.05, "h2d": 0.01, "forward": 0.35, "backward": 0.45, "optimizer": 0.1}


def noisy(seed: int, usual: float, count: int, noise: float) -> np.ndarray:
    return usual * np.exp(np.random.default_rng(seed).normal(0, noise, count))


def part_of(table: Table, rows: np.ndarray, spent_s: float, part: str) -> Table:
    """Let some steps take longer, in one part; the others follow later."""
    longer = np.where(rows, round(spent_s * SECOND), 0)
    moved = START + np.concatenate([[0], np.cumsum(table["duration"] + longer)[:-1]])
    columns = {part: table[part] + longer, "duration": table["duration"] + longer, "time": moved}
    return Table({**table.columns, **columns})


def shapes() -> dict[str, dict[str, Table]]:
    number = np.arange(3000)
    plain = steps(noisy(1, 0.1, 3000, 0.05), **USUAL)
    tiny = steps(noisy(2, 0.0001, 3000, 0.5), forward=0.3, backward=0.3)
    pairs = [steps(noisy(r, 0.1, 1000, 0.02), rank=r, **USUAL, communication=0.03) for r in range(4)]
    pauses = spans("gc", np.arange(30) * 10.0 + 5, 0.02, step=np.arange(30) * 100, value=2)
    fetches = spans("fetch", np.arange(3000) * 0.1, 0.03, worker=number % 4, value=32)
    return {
        "plain": {"steps": plain, "spans": Table.concat([pauses, fetches])},
        "tiny": {"steps": tiny, "spans": spans("gc", np.arange(20) * 0.01, 0.001, step=number[:20] * 100)},
        "stopped early": {"steps": steps(noisy(3, 0.1, 80, 0.1), **USUAL)},
        "bursty": {"steps": steps(noisy(4, 0.1, 3000, 0.3), **USUAL)},
        "several ranks": {"steps": Table.concat(pairs)},
        "first epoch slower": {
            "steps": steps(np.concatenate([noisy(5, 0.3, 600, 0.05), noisy(6, 0.1, 2400, 0.05)]), **USUAL)
        },
        "evaluation in the loop": {"steps": part_of(plain, number % 500 == 499, 6.0, "eval")},
        "checkpoints each epoch": {"steps": part_of(plain, number % 500 == 499, 1.0, "checkpoint")},
        "short demo with checkpoints": {"steps": every(50, 300, 0.02, 0.2, "checkpoint")},
        "compiles at first, and once for evaluation": {
            "steps": Table(
                {**plain.columns, "compile": np.where(np.isin(number, [0, 1, 2, 500]), 90_000_000, 0)}
            )
        },
        "minutes to compile": {"steps": part_of(plain, number == 0, 100.0, "forward")},
        "steps of ten seconds": {"steps": steps(noisy(7, 10.0, 300, 0.02), **USUAL)},
    }


def story(rule: Rule, tables: dict[str, Table], looks: int = 12) -> tuple[list, dict]:
    """Evaluate a rule on a job many times; return all its findings and its state."""
    end = max(int((t["time"] + t["duration"]).max()) for t in tables.values())
    state: dict = {}
    found = []
    for since, until in itertools.pairwise(np.linspace(START - 1, end, looks + 1).astype(np.int64).tolist()):
        known = tables["steps"].where(tables["steps"]["time"] + tables["steps"]["duration"] <= until)
        job = job_facts(known, start=START, nodes=NODES, trainers=True)
        window = Window.of(rule.lookback, job=job, state=state, start=since, end=until, **tables)
        found += rule.evaluate(window)
        state = json.loads(json.dumps(window.state))
    return found, state


@pytest.mark.parametrize("name", NAMES)
def test_no_healthy_shape_is_warned_of(name):
    rule = find(name)()
    warned = {
        shape: [issue.summary for issue in story(rule, tables)[0] if issue.severity != "info"]
        for shape, tables in shapes().items()
    }
    assert {shape: told for shape, told in warned.items() if told} == {}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_rule_keeps_does_not_grow_with_the_job(name):
    rule = find(name)()
    count = 20_000
    table = every(10, count, 0.2, 0.05, "checkpoint")
    busy = Table({**table.columns, "eval": table["checkpoint"], "compile": table["checkpoint"]})
    number = np.arange(count)
    told = [
        {"time": t, "step": i, "rank": 0, "name": "tokens", "value": 9.0}
        for i, t in enumerate(table["time"].tolist())
    ]
    scalars = Table.of("scalars", [*told, *({**row, "rank": 1} for row in told)])
    pauses = spans("gc", (table["time"] - START) / SECOND, 0.01, step=number)
    built = spans("fetch", number * 0.2, 0.05, worker=number % 4)
    state: dict = {}
    sizes = []
    for since, until in itertools.pairwise(range(START - 1, START + 4001 * SECOND, 200 * SECOND)):
        job = job_facts(table, start=START, nodes=NODES)
        given = {"steps": busy, "scalars": scalars, "spans": Table.concat([pauses, built])}
        window = Window.of(rule.lookback, job=job, state=state, start=since, end=until, **given)
        list(rule.evaluate(window))
        state = json.loads(json.dumps(window.state))
        sizes.append(len(json.dumps(state)))
    assert sizes[-1] < 30_000
    assert sizes[-1] < 1.5 * sizes[len(sizes) // 2] + 500
