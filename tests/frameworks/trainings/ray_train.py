"""Trains with Ray Train in one of several ways; each worker writes what it did, by its own clock.

truth.json has what the workers wrote, by rank.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

STEPS, EPOCHS = 24, 2
FOLDER = Path.cwd()


def _seconds(took: dict[str, float], part: str, began: float) -> None:
    took[part] = took.get(part, 0.0) + time.perf_counter() - began


def train(config: dict[str, Any]) -> None:
    """Train on one worker."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    case, folder = config["case"], Path(config["folder"])
    place = ray.train.get_context()
    rank = place.get_world_rank()
    truth: dict[str, Any] = {"steps": 0, "losses": [], "reported": [], "world": place.get_world_size()}
    took: dict[str, float] = {}
    torch.manual_seed(7)
    width = 700 if case == "compute" else 64
    net = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
    )
    model = ray.train.torch.prepare_model(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    shard = ray.train.get_dataset_shard("train") if case == "data" else None
    generator = torch.Generator().manual_seed(3 + rank)
    again = ray.train.get_checkpoint() is not None
    began_loop = None
    for epoch in range(EPOCHS):
        batches = iter(shard.iter_torch_batches(batch_size=16)) if shard is not None else None
        began_loop = began_loop or time.perf_counter()
        for number in range(STEPS):
            began = time.perf_counter()
            if batches is not None:
                batch = next(batches)
                x, y = batch["x"], batch["y"]
            else:
                rows = 256 if case == "compute" else 32
                x = torch.randn(rows, 64, generator=generator)
                y = torch.randint(0, 4, (rows,), generator=generator)
            _seconds(took, "load", began)
            began = time.perf_counter()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            truth["losses"].append(loss.item())
            truth["steps"] += 1
            _seconds(took, "compute", began)
            if case == "restart" and not again and epoch == 1 and number == 5 and rank == 1:
                raise RuntimeError("this worker fails once")
        mean = sum(truth["losses"][-STEPS:]) / STEPS
        truth["reported"].append(mean)
        with tempfile.TemporaryDirectory() as draft:
            if rank == 0:
                torch.save(net.state_dict(), os.path.join(draft, "model.pt"))
            numbers = {"loss": mean, "epoch": epoch, "val_loss": mean / 2}
            checkpoint = Checkpoint.from_directory(draft) if rank == 0 else None
            began = time.perf_counter()
            ray.train.report(numbers, checkpoint=checkpoint)
            _seconds(took, "report", began)
    truth["loop"] = time.perf_counter() - (began_loop or 0.0)
    state = b"".join(one.numpy().tobytes() for one in net.state_dict().values())
    truth |= {"model": hashlib.sha256(state).hexdigest(), "took": took, "pid": os.getpid()}
    truth["from_hook"] = os.environ.get("FROM_HOOK")
    (folder / f"rank-{rank}.json").write_text(json.dumps(truth))


def slow(batch: dict[str, Any]) -> dict[str, Any]:
    """Prepare a block slowly."""
    import numpy as np

    time.sleep(0.05 * len(batch["id"]) / 16)
    random = np.random.default_rng(5)
    rows = len(batch["id"])
    return {"x": random.standard_normal((rows, 64)).astype("float32"), "y": random.integers(0, 4, rows)}


def main(case: str) -> None:
    """Start Ray, or connect to the cluster of `RAY_ADDRESS`, and train."""
    if os.environ.get("RAY_ADDRESS"):
        ray.init(logging_level="error")
    else:
        ray.init("local", num_cpus=4, include_dashboard=False, logging_level="error")
    datasets = {}
    if case == "data":
        data = ray.data.range(16 * STEPS * 2, override_num_blocks=STEPS)
        datasets = {"train": data.map_batches(slow, batch_size=16)}
    trainer = TorchTrainer(
        train,
        train_loop_config={"case": case, "folder": str(FOLDER)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name=case, storage_path=str(FOLDER / "ray"), failure_config=FailureConfig(max_failures=1)
        ),
        datasets=datasets,
    )
    result = trainer.fit()
    ranks = [json.loads((FOLDER / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    told = {"ranks": ranks, "metrics": result.metrics}
    (FOLDER / "truth.json").write_text(json.dumps(told))
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
