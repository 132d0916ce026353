"""A small training whose weights depend on every step; it stops at one stage until a fault has been made.

    python training.py KIND STAGE FOLDER

KIND: `plain` computes in Python, `worker` gets its batches from a forked process, `ranks` starts two of
`plain`, `torch` trains a layer with PyTorch. At STAGE it writes `FOLDER/reached` and waits for `FOLDER/go`.
Each rank counts its steps in `FOLDER/steps-RANK` and prints the hash of its weights.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

KIND, STAGE, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
RANK = int(os.environ.get("RANK", "0"))
STEPS = int(os.environ.get("FAULT_STEPS", "120"))
AT = {"first": 0, "step": STEPS // 2, "window": STEPS // 2, "save": STEPS // 2, "end": -1, "start": -1}
WORKER: list[int] = []

try:
    import holter
except ImportError:  # the same training without holter
    holter = None


def reach(stage: str) -> None:
    """Wait at a stage until the fault has been made."""
    if stage != STAGE or RANK != 0:
        return
    ready = FOLDER / "reached.new"
    ready.write_text(json.dumps({"trainer": os.getpid(), "parent": os.getppid(), "worker": WORKER}))
    ready.rename(FOLDER / "reached")
    while not (FOLDER / "go").exists():
        time.sleep(0.005)


def marked(step: int):
    return contextlib.nullcontext() if holter is None or KIND == "torch" else holter.step()


def batches():
    chance = random.Random(RANK)
    for _ in range(STEPS):
        yield [chance.random() for _ in range(32)]


def from_worker():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "wb", 0) as file:
                for batch in batches():
                    file.write(json.dumps(batch).encode() + b"\n")
            os._exit(0)
        except BaseException:  # the training has ended
            os._exit(1)
    os.close(writing)
    WORKER.append(child)
    with os.fdopen(reading) as file:
        got = 0
        for line in file:
            got += 1
            yield json.loads(line)
    if got < STEPS:
        raise RuntimeError(f"the worker sent {got} of {STEPS} batches")


def log(loss: float) -> None:
    if holter is not None:
        holter.log(loss=loss)


def train_plain() -> list[float]:
    weights = [0.5] * 32
    for step, batch in enumerate(from_worker() if KIND == "worker" else batches()):
        with marked(step):
            error = sum(w * x for w, x in zip(weights, batch, strict=True)) - 1
            if step == AT.get(STAGE):
                reach(STAGE)
            weights = [w - 0.01 * error * x for w, x in zip(weights, batch, strict=True)]
            log(error * error)
            time.sleep(0.002)
        count(step + 1)
    return weights


def train_torch() -> list[float]:
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step, batch in enumerate(batches()):
        loss = (model(torch.tensor(batch)) - 1).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        if step == AT.get(STAGE):
            reach(STAGE)
        optimizer.step()
        count(step + 1)
    return [value for parameter in model.parameters() for value in parameter.flatten().tolist()]


def count(steps: int) -> None:
    os.pwrite(COUNTER, steps.to_bytes(8, "little"), 0)


def launch() -> int:
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "plain", STAGE, str(FOLDER)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    codes = [rank.wait() for rank in ranks]
    return int(any(codes))


if KIND == "ranks":
    sys.exit(launch())
COUNTER = os.open(FOLDER / f"steps-{RANK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
reach("start")
weights = train_torch() if KIND == "torch" else train_plain()
reach("end")
print(RANK, hashlib.sha256(repr(weights).encode()).hexdigest(), flush=True)
