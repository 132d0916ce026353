"""Runs two trials of Ray Tune at once, each of which trains."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import ray
from ray import tune

STEPS = 30
FOLDER = Path.cwd()


def train(config: dict[str, Any]) -> None:
    """Train one trial."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = torch.nn.Linear(64, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=config["rate"])
    for number in range(1, STEPS + 1):
        loss = torch.nn.functional.cross_entropy(net(torch.randn(32, 64)), torch.randint(0, 4, (32,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.02)
        if number % 10 == 0:
            tune.report({"loss": loss.item()})


if __name__ == "__main__":
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level="error")
    settings = tune.RunConfig(storage_path=str(FOLDER / "ray"), verbose=0)
    tuner = tune.Tuner(train, param_space={"rate": tune.grid_search([0.1, 0.01])}, run_config=settings)
    losses = sorted(result.metrics["loss"] for result in tuner.fit())
    (FOLDER / "truth.json").write_text(json.dumps({"losses": losses, "steps": STEPS}))
    ray.shutdown()
