"""Trains a loop with Accelerate; writes what it did, by its own clock, to truth.json."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
truth: dict[str, Any] = {"losses": [], "steps": 0}
took = dict.fromkeys(("load", "forward", "backward", "optimizer", "evaluate", "save"), 0.0)
WIDTHS = {"compute": 2048, "clocked": 1024}
EPOCHS, BATCHES = 2, 20
WARM = 10
"""Steps that are not timed: they show what torch and the recorder do once."""


@contextmanager
def timed(part: str) -> Iterator[None]:
    """Add the time of a block to `took`."""
    began = time.perf_counter()
    yield
    took[part] += time.perf_counter() - began


class Samples(Dataset):
    """Random samples, each of which takes a while to load."""

    def __init__(self, count: int, seconds: float) -> None:
        self.inputs, self.labels = torch.randn(count, 64), torch.randint(0, 4, (count,))
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.inputs[at], self.labels[at]


def evaluate(accelerator: Accelerator, model: nn.Module, loader: Any) -> None:
    """Evaluate, gather what all ranks found, and switch back."""
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            guessed, true = accelerator.gather_for_metrics((model(x).argmax(-1), y))
            right += int((guessed == true).sum())
    truth.setdefault("evaluated", []).append(right)
    model.train()


def train(case: str) -> nn.Module:
    """Train in one way; return the model."""
    set_seed(5)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2 if case == "accumulated" else 1)
    width = WIDTHS.get(case, 32)
    net = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
    )
    seconds = {"data": 0.004, "clocked": 0.001}.get(case, 0.0)
    loader = DataLoader(Samples(4 * BATCHES, seconds), batch_size=4, shuffle=True)
    test = DataLoader(Samples(30, seconds), batch_size=4)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.99**step)
    model, optimizer, loader, test, schedule = accelerator.prepare(net, optimizer, loader, test, schedule)
    began = time.perf_counter()
    for epoch in range(EPOCHS):
        batches = iter(loader)
        while True:
            with timed("load"):
                batch = next(batches, None)
            if batch is None:
                break
            with accelerator.accumulate(model):
                with timed("forward"):
                    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
                    truth["losses"].append(loss.item())
                with timed("backward"):
                    accelerator.backward(loss)
                with timed("optimizer"):
                    optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                truth["steps"] += accelerator.sync_gradients
                if case == "clocked" and truth["steps"] == WARM:
                    truth["first"], began = WARM, time.perf_counter()
                    took.update(dict.fromkeys(took, 0.0))
        if case in ("plain", "accumulated") or (case == "clocked" and epoch < EPOCHS - 1):
            with timed("evaluate"):
                evaluate(accelerator, model, test)
            with timed("save"):
                accelerator.save_state("state")
    truth["loop"] = time.perf_counter() - began
    return net


if __name__ == "__main__":
    model = train(sys.argv[1])
    state = b"".join(one.numpy().tobytes() for one in model.state_dict().values())
    truth["model"] = hashlib.sha256(state).hexdigest()
    Path("truth.json").write_text(json.dumps({**truth, "took": took}))
