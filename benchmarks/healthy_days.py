"""False alarms of healthy trainings over simulated days, from minutes that were recorded under changing load.

    python benchmarks/healthy_days.py [--minutes 2] [--hours 24] [--seed 1] [--only KIND]

Each training runs for `--minutes` under `holter run`, while other programs start and end beside it at random.
Its steady part is cut at steps into blocks of ten seconds. Blocks drawn at random make a job of `--hours`:
spans and samples of a block stay together, with times and steps that continue. The default rules then judge
this job at the same moments as a live one. What a rule knows of the machine and the noise within a block is
measured; that blocks follow each other in any order is simulated. Losses are left out, because blocks of a
training that learns do not fit together, so rules about learning judge nothing.
Findings of CPUContention are counted apart, with their symptoms: the other programs do take cores.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from markdown_tables import row, table

from holter.evaluation import evaluate
from holter.store import job
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.issues import ordered

if TYPE_CHECKING:
    from holter.schema.table import Table
    from holter.store.job import JobFolder
    from holter.views.document.types.rules import RuleResult

ROOT = Path(__file__).parents[1]
BLOCK_NS = 10 * 10**9
SETTLED_NS = 15 * 10**9
"""Of the beginning so much is left out: what warms up happens once."""
LOAD = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"
CONTENTION = "CPUContention"
TRAINING = """
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
kind, seconds = sys.argv[1], float(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(1)
width, workers = {"linear": (1024, 0), "convolutional": (24, 0), "workers": (1024, 1)}[kind]
if kind == "convolutional":
    model = nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3), nn.Flatten(),
                          nn.LazyLinear(10))
    inputs = torch.randn(512, 3, 24, 24)
else:
    model = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                          nn.Linear(width, 10))
    inputs = torch.randn(8192, 256)
model(inputs[:2])
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
data = TensorDataset(inputs, torch.randint(0, 10, (len(inputs),)))
loader = DataLoader(data, batch_size=64 if kind == "convolutional" else 1024, shuffle=True,
                    num_workers=workers, persistent_workers=workers > 0)
end = time.monotonic() + seconds
while time.monotonic() < end:
    for batch, targets in loader:
        loss = nn.functional.cross_entropy(model(batch), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
KINDS = ("linear", "convolutional", "workers")


def recorded(kind: str, seconds: float, place: Path, chance: random.Random) -> JobFolder:
    """Record a training beside programs that come and go."""
    script = place / "train.py"
    script.write_text(TRAINING)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-m", "holter", "run", "--store", str(place / "store"), "--job", kind, "--"]
    done = threading.Event()

    def come_and_go() -> None:
        while not done.wait(chance.expovariate(1 / 5.0)):
            subprocess.run([sys.executable, "-c", LOAD, str(chance.uniform(0.5, 8.0))], check=False)

    beside = threading.Thread(target=come_and_go)
    beside.start()
    try:
        subprocess.run(
            [*words, sys.executable, str(script), kind, str(seconds)],
            env=environment,
            check=True,
            capture_output=True,
        )
    finally:
        done.set()
        beside.join()
    return job.find(str(place / "store"), kind)


def blocks(tables: dict[str, Table]) -> list[tuple[int, int, int, int]]:
    """Return the blocks of the steady part: begin and end, ns, the first step, and how many steps."""
    steps = tables["spans"].where(tables["spans"]["phase"] == "step").sorted("time")
    begin, number = steps["time"], steps["step"]
    found: list[tuple[int, int, int, int]] = []
    at = int(np.searchsorted(begin, begin[0] + SETTLED_NS))
    while True:
        end = int(np.searchsorted(begin, begin[at] + BLOCK_NS))
        if end >= len(begin):
            return found
        found.append((int(begin[at]), int(begin[end]), int(number[at]), int(number[end] - number[at])))
        at = end


def prolonged(
    short: JobFolder, store: str, hours: float, chance: random.Random
) -> tuple[JobFolder, int, int]:
    """Write the job that blocks of a short one make; return it, its steps, and the number of blocks."""
    trial, manifest = Trial(short), short.manifest()
    tables = {name: trial.table(name).sorted("time") for name in ("spans", "samples")}
    found = blocks(tables)
    start = int(manifest["start"])
    folder = job.create(
        store,
        short.name,
        command=list(manifest["command"]),
        interval_ms=int(manifest["interval_ms"]),
        rules=list(manifest["rules"]),
        now_ns=start,
    )
    ((node, about),) = trial.nodes.items()
    writer = Writer(folder, node)
    events = trial.table("events")
    put(writer, "events", events.where(np.isin(events["kind"].astype(str), ("process", "owner"))), 0, 0)
    moment, step = found[0][0], 0
    end = moment + round(hours * 3600e9)
    while moment < end:
        begin, until, first, count = found[chance.randrange(len(found))]
        for name, rows in tables.items():
            low, high = np.searchsorted(rows["time"], [begin, until])
            put(writer, name, rows.where(slice(int(low), int(high))), moment - begin, step - first)
        moment += until - begin
        step += count
    if not writer.close():
        raise OSError(f"the job could not be written: {writer.fault}")
    folder.write_node(node, {**about, "heartbeat": moment})
    folder.update(start=start, end=moment, status="Completed", exit_code=0)
    return folder, step, len(found)


def put(writer: Writer, name: str, rows: Table, later: int, further: int) -> None:
    """Append rows with later times and further steps."""
    columns: dict[str, Any] = {}
    for column in rows.names:
        if column == "node":
            continue
        values = rows[column]
        if values.dtype == object:
            codes, texts = rows.coded(column)
            columns[column] = (codes.astype(np.int32), list(texts))
        elif column == "time":
            columns[column] = values + later
        elif column == "step":
            columns[column] = np.where(values >= 0, values + further, values)
        else:
            columns[column] = values
    if rows.rows:
        writer.append(name, columns)


def main() -> None:
    """Record, prolong and judge the trainings; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of a kind's name")
    given = parser.parse_args()
    table("training", "blocks", "steps", "rules that judged", "warnings", "notes", CONTENTION, "judged in, s")
    said, days = [], 0.0
    with tempfile.TemporaryDirectory(prefix="healthy-days-") as place:
        for kind in (one for one in KINDS if given.only in one):
            chance = random.Random(f"{kind} {given.seed}")
            short = recorded(kind, 60 * given.minutes, Path(place), chance)
            long, steps, drawn = prolonged(short, str(Path(place) / "long"), given.hours, chance)
            began = time.monotonic()
            rules = evaluate(long).rules
            took = time.monotonic() - began
            issues = ordered(cast("list[RuleResult]", rules))
            others = [one for one in issues if one.rule != CONTENTION]
            warned = sum(one.issue["severity"] != "info" for one in others)
            said += [
                f"* {kind}: {one.rule}, {one.issue['severity']}: {one.issue['summary']}" for one in others
            ]
            judged = sum(bool(rule["coverage"]["evaluated"]) for rule in rules)
            days += given.hours / 24
            apart = len(issues) - len(others)
            row(
                kind,
                drawn,
                f"{steps:,}",
                judged,
                warned,
                len(others) - warned,
                apart,
                f"{took:.0f}",
            )
            said += [
                f"* {kind}: {rule['name']} ended with an error" for rule in rules if rule["status"] == "Error"
            ]
    print(f"\n{days:g} days with seed {given.seed}; notes are issues of severity info.")
    print("\n".join(["", *said]))


if __name__ == "__main__":
    main()
