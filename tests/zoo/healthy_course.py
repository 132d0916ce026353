"""Healthy trainings that resemble silent errors in the course of a training."""

from __future__ import annotations

import torch
from tests.zoo.material import batches, classifier, points
from tests.zoo.sick_course import BATCHES, EPOCHS, clipped, resumed, scheduled_epochs, with_autocast
from torch.nn import functional


def cosine_per_batch() -> None:
    """A cosine over all batches, stepped with each."""
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR
    scheduled_epochs(lambda optimizer: cosine(optimizer, EPOCHS * BATCHES), per_batch=True)


def cosine_per_epoch() -> None:
    """A cosine over the epochs, stepped with each."""
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR
    scheduled_epochs(lambda optimizer: cosine(optimizer, EPOCHS), per_batch=False)


def one_cycle() -> None:
    """One cycle over all batches, which ends far below its peak."""
    cycle = torch.optim.lr_scheduler.OneCycleLR
    scheduled_epochs(lambda optimizer: cycle(optimizer, 0.1, EPOCHS * BATCHES), per_batch=True)


def warm_restarts() -> None:
    """A rate that falls to 0 in each epoch on purpose."""
    restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts
    scheduled_epochs(lambda optimizer: restarts(optimizer, BATCHES), per_batch=True)


def autocasts() -> None:
    """Autocast to bfloat16 needs no scaler."""
    with_autocast(classifier(16, 64), torch.bfloat16)


def trains_in_bfloat16() -> None:
    """Weights in bfloat16."""
    model = classifier(16, 64).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for x, y in batches(points, 60):
        optimizer.zero_grad()
        functional.cross_entropy(model(x.bfloat16()).float(), y).backward()
        optimizer.step()


def clips_moderately() -> None:
    """Clipping cuts most gradients, by little."""
    clipped(0.2)


def measures_its_norm() -> None:
    """A clipping without limit, after the step, only measures gradients."""
    clipped(float("inf"), late=True, steps=60)


def starts_slowly() -> None:
    """A long warm-up to a small rate: the loss leaves the value of guessing late."""
    model = classifier(16, 64)
    torch.nn.init.zeros_(model[2].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 400))
    for x, y in batches(points, 1000):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        warm.step()


def resumes() -> None:
    """Model and optimizer are loaded."""
    resumed(parts=("model", "optimizer"))


def tunes_a_checkpoint() -> None:
    """The weights of another training's checkpoint are tuned by a new optimizer."""
    resumed(parts=("model",), elsewhere=True)


def restores_its_best() -> None:
    """The best weights are loaded from memory now and then, as early stopping does."""
    model = classifier(16, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    for step, (x, y) in enumerate(batches(points, 120)):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step % 40 == 20:
            kept = {name: value.clone() for name, value in model.state_dict().items()}
        elif step % 40 == 39:
            model.load_state_dict(kept)
