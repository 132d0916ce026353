"""Trains a loop with Accelerate; writes what it did, by its own clock, to truth.json."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from own_loop import Clock, Samples, write
from torch import nn
from torch.utils.data import DataLoader

torch.set_num_threads(1)
truth: dict[str, Any] = {"losses": [], "steps": 0}
clock = Clock("load", "forward", "backward", "optimizer", "evaluate", "save")
WIDTHS = {"compute": 2048, "clocked": 1024}
EPOCHS, BATCHES = 2, 20
WARM = 60
"""Steps that are not timed: they show what torch and the recorder do once."""


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
    seconds = {"data": 0.004, "clocked": 0.003}.get(case, 0.0)
    count = 3 * BATCHES if case == "clocked" else BATCHES
    loader = DataLoader(Samples(4 * count, seconds), batch_size=4, shuffle=True)
    test = DataLoader(Samples(30, seconds), batch_size=4)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.99**step)
    model, optimizer, loader, test, schedule = accelerator.prepare(net, optimizer, loader, test, schedule)
    clock.restart(0)
    for epoch in range(EPOCHS):
        batches = iter(loader)
        while True:
            with clock.timed("load"):
                batch = next(batches, None)
            if batch is None:
                break
            with accelerator.accumulate(model):
                with clock.timed("forward"):
                    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
                    truth["losses"].append(loss.item())
                with clock.timed("backward"):
                    accelerator.backward(loss)
                with clock.timed("optimizer"):
                    optimizer.step()
                if accelerator.sync_gradients:
                    truth["steps"] += 1
                    clock.stepped()
                    if case == "clocked" and truth["steps"] == WARM:
                        clock.restart(WARM)
                schedule.step()
                optimizer.zero_grad()
        if case in ("plain", "accumulated") or (case == "clocked" and epoch < EPOCHS - 1):
            with clock.timed("evaluate"):
                evaluate(accelerator, model, test)
            with clock.timed("save"):
                accelerator.save_state("state")
    truth.update(clock.end())
    return net


if __name__ == "__main__":
    model = train(sys.argv[1])
    state = b"".join(one.numpy().tobytes() for one in model.state_dict().values())
    truth["model"] = hashlib.sha256(state).hexdigest()
    write(truth)
