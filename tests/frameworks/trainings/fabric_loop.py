"""Trains a loop with Lightning Fabric; writes what it did, by its own clock, to truth.json."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from lightning.fabric.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
torch.set_num_threads(1)
truth: dict[str, Any] = {"losses": [], "steps": 0}
took = {"callback": 0.0}


class Shower:
    """A callback of the script, with a hook that only the script knows."""

    def after_step(self, seconds: float) -> None:
        began = time.perf_counter()
        time.sleep(seconds)
        took["callback"] += time.perf_counter() - began


class Net(nn.Module):
    """A small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def train(case: str) -> Any:
    """Train, with as many batches in a step as the case says; return the model."""
    fabric = Fabric(accelerator="cpu", devices=1, callbacks=[Shower()], loggers=[CSVLogger("logs")])
    fabric.launch()
    fabric.seed_everything(5, verbose=False)
    model = Net()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    data = TensorDataset(torch.randn(160, 64), torch.randint(0, 4, (160,)))
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=4))
    accumulated = 4 if case == "accumulated" else 1
    began = time.perf_counter()
    for number, (x, y) in enumerate(loader, 1):
        with fabric.no_backward_sync(model, enabled=number % accumulated != 0):
            loss = nn.functional.cross_entropy(model(x), y)
            truth["losses"].append(loss.item())
            fabric.backward(loss / accumulated)
        if number % accumulated == 0:
            optimizer.step()
            optimizer.zero_grad()
            truth["steps"] += 1
            fabric.log("twice", 2 * truth["losses"][-1], step=truth["steps"])
            fabric.call("after_step", seconds=0.004)
    truth["loop"] = time.perf_counter() - began
    fabric.save("state.ckpt", {"model": model})
    return model


if __name__ == "__main__":
    model = train(sys.argv[1])
    state = b"".join(one.numpy().tobytes() for one in model.state_dict().values())
    truth["model"] = hashlib.sha256(state).hexdigest()
    Path("truth.json").write_text(json.dumps({**truth, "took": took}))
