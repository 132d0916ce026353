"""Trains a loop with Lightning Fabric; writes what it did, by its own clock, to truth.json."""

from __future__ import annotations

import hashlib
import logging
import sys
import time
import warnings
from typing import Any

import torch
from lightning.fabric import Fabric
from lightning.fabric.loggers import CSVLogger
from own_loop import Clock, Samples, write
from torch import nn
from torch.utils.data import DataLoader

warnings.simplefilter("ignore")
logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
torch.set_num_threads(1)
truth: dict[str, Any] = {"losses": [], "steps": 0}
clock = Clock("load", "forward", "backward", "optimizer", "evaluate", "callback")
WIDTHS = {"compute": 2048, "clocked": 1024}
WARM = 60
"""Steps that are not timed: they show what torch and the recorder do once."""


class Shower:
    """A callback of the script, with a hook that only the script knows."""

    def after_step(self, seconds: float) -> None:
        with clock.timed("callback"):
            time.sleep(seconds)


class Net(nn.Module):
    """A small classifier."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = (nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.body = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def evaluate(model: Any, loader: Any) -> None:
    """Evaluate and switch back."""
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y)
    model.train()


def train(case: str) -> Any:
    """Train, with as many batches in a step as the case says; return the model."""
    fabric = Fabric(accelerator="cpu", devices=1, callbacks=[Shower()], loggers=[CSVLogger("logs")])
    fabric.launch()
    fabric.seed_everything(5, verbose=False)
    model = Net(WIDTHS.get(case, 32))
    kind = torch.optim.Adam if case == "clocked" else torch.optim.SGD
    model, optimizer = fabric.setup(model, kind(model.parameters(), lr=0.1))
    seconds = {"data": 0.004, "clocked": 0.003}.get(case, 0.0)
    loader = fabric.setup_dataloaders(
        DataLoader(Samples(480 if case == "clocked" else 160, seconds), batch_size=4)
    )
    test = fabric.setup_dataloaders(DataLoader(Samples(16, seconds), batch_size=4))
    accumulated = 4 if case == "accumulated" else 1
    clock.restart(0)
    batches, number = iter(loader), 0
    while True:
        with clock.timed("load"):
            batch = next(batches, None)
        if batch is None:
            break
        number += 1
        with fabric.no_backward_sync(model, enabled=number % accumulated != 0):
            with clock.timed("forward"):
                loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
                truth["losses"].append(loss.item())
            with clock.timed("backward"):
                fabric.backward(loss / accumulated)
        if number % accumulated == 0:
            with clock.timed("optimizer"):
                optimizer.step()
            truth["steps"] += 1
            clock.stepped()
            if case == "clocked" and truth["steps"] == WARM:
                clock.restart(WARM)
            optimizer.zero_grad()
            fabric.log("twice", 2 * truth["losses"][-1], step=truth["steps"])
            if case not in ("data", "compute"):
                fabric.call("after_step", seconds=0.004)
        if case == "clocked" and number % 10 == 0:
            with clock.timed("evaluate"):
                evaluate(model, test)
    truth.update(clock.end())
    fabric.save("state.ckpt", {"model": model})
    return model


if __name__ == "__main__":
    model = train(sys.argv[1])
    state = b"".join(one.numpy().tobytes() for one in model.state_dict().values())
    truth["model"] = hashlib.sha256(state).hexdigest()
    write(truth)
