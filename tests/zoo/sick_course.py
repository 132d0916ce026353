"""Small trainings with silent errors in their course: schedules, precision, clipping, resuming."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from tests.zoo.material import batches, classifier, learn, points
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCHES = 10, 24
"""Epochs of a training with a schedule, and its batches per epoch."""


def scheduled_epochs(
    make: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler], *, per_batch: bool
) -> None:
    """Train for some epochs with a schedule that is stepped after each batch or after each epoch."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = make(optimizer)
    loader = DataLoader(TensorDataset(*points(16 * BATCHES)), 16, shuffle=True)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if per_batch:
                schedule.step()
        if not per_batch:
            schedule.step()


def decays_per_batch() -> None:
    """The rate falls every third batch instead of every third epoch."""
    scheduled_epochs(lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.1), per_batch=True)


def oscillates_per_batch() -> None:
    """A cosine over the epochs is stepped with each batch."""
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR
    scheduled_epochs(lambda optimizer: cosine(optimizer, EPOCHS), per_batch=True)


def never_leaves_warm_up() -> None:
    """One cycle over all batches is stepped with each epoch."""
    cycle = torch.optim.lr_scheduler.OneCycleLR
    scheduled_epochs(lambda optimizer: cycle(optimizer, 0.1, EPOCHS * BATCHES), per_batch=False)


class Rooted(nn.Module):
    """A perceptron with a penalty: the root of a weight that is 0, whose gradient is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.penalty = classifier(16, 64), nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.penalty.sqrt()


def skips_all_steps() -> None:
    """One gradient is infinite in every step, so the scaler skips all of them."""
    model = Rooted()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in batches(points, 40):
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()


def with_autocast(model: nn.Module, dtype: torch.dtype, x_type: torch.dtype = torch.float32) -> None:
    """Train under autocast, without a scaler."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(points, 24):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype):
            loss = functional.cross_entropy(model(x.to(x_type)), y)
        loss.backward()
        optimizer.step()


def autocasts_doubles() -> None:
    """Autocast leaves float64 as it is."""
    with_autocast(classifier(16, 64).double(), torch.bfloat16, torch.float64)


def autocasts_half_unscaled() -> None:
    """Autocast to float16 without a scaler."""
    with_autocast(classifier(16, 64), torch.float16)


def trains_half_weights() -> None:
    """Weights in float16, updated by plain SGD."""
    model = classifier(16, 64).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(points, 24):
        optimizer.zero_grad()
        functional.cross_entropy(model(x.half()).float(), y).backward()
        optimizer.step()


def clipped(limit: float, *, late: bool = False, steps: int = 140) -> None:
    """Train with gradients that are clipped before or after the step."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(points, steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        if not late:
            nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
        if late:
            nn.utils.clip_grad_norm_(model.parameters(), limit)


def clips_after_the_step() -> None:
    """The optimizer has used the gradients when they are clipped."""
    clipped(1.0, late=True, steps=24)


def clips_to_nothing() -> None:
    """The limit is far below all norms."""
    clipped(1e-3)


def guesses() -> None:
    """Inputs are lost before the model."""
    learn((x * 0, y) for x, y in batches(points, 620))


def dies_at_its_output() -> None:
    """A ReLU after the last layer never lets anything pass."""
    model = nn.Sequential(classifier(16, 64), nn.ReLU())
    nn.init.constant_(model[0][2].bias, -50.0)
    learn(batches(points, 120), model)


def resumed(*, parts: tuple[str, ...], elsewhere: bool = False) -> None:
    """Train, save, and go on with a new model and a new optimizer, which load some parts of the checkpoint.

    `elsewhere`: the checkpoint is from another training, and this one saves into its own folder.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        model = classifier(16, 64)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        learn(batches(points, 150), model, optimizer)
        path = Path(folder) / "last.pt"
        whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
        torch.save(whole, str(path) if not elsewhere else path.open("wb"))
        model = classifier(16, 64)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        found = torch.load(path)
        if "model" in parts:
            model.load_state_dict(found["model"])
        if "optimizer" in parts:
            optimizer.load_state_dict(found["optimizer"])
        learn(batches(points, 60), model, optimizer)
        torch.save(model.state_dict(), Path(other) / "tuned.pt")


def forgets_its_optimizer() -> None:
    """Only the model is loaded."""
    resumed(parts=("model",))


def forgets_its_model() -> None:
    """Only the optimizer is loaded."""
    resumed(parts=("optimizer",))


def begins_its_schedule_anew() -> None:
    """Model and optimizer are loaded, the schedule is not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        for part in range(2):
            model = classifier(16, 64)
            optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
            if part:
                found = torch.load(path)
                model.load_state_dict(found["model"])
                optimizer.load_state_dict(found["optimizer"])
            for x, y in batches(points, 80):
                optimizer.zero_grad()
                functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                schedule.step()
            states = {"model": model, "optimizer": optimizer, "schedule": schedule}
            torch.save({name: one.state_dict() for name, one in states.items()}, path)
