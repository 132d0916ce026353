"""Small trainings whose numbers go wrong: losses, gradients, steps, what is measured on held-out data."""

from __future__ import annotations

import torch
from tests.zoo import healthy
from tests.zoo.material import batches, classifier, learn, points
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import holter


def learns_nothing() -> None:
    """Labels that have nothing to do with the points."""
    model = classifier(16, 16)
    noise = ((x, torch.randint(0, 4, y.shape)) for x, y in batches(points, 1200))
    learn(noise, model, lr=0.02)


def learns_nothing_well() -> None:
    """The same points with the labels they have, learned slowly."""
    learn(batches(points, 1200), classifier(16, 16), lr=0.002)


def tiny_again() -> None:
    """The same training as `tiny`, from the same seed."""
    healthy.tiny()


def jumps() -> None:
    """From step 150 on the learning rate is a hundred times what it was."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(batches(points, 260)):
        if step == 150:
            optimizer.param_groups[0]["lr"] *= 100
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        optimizer.step()
        holter.log(loss=loss.item(), grad_norm=norm.item(), lr=optimizer.param_groups[0]["lr"])


def takes_the_log_of_zero() -> None:
    """A loss with a logarithm that meets a zero once a probability is exactly that."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(batches(points, 160)):
        chances = model(x * (1000.0 if step >= 120 else 1.0)).softmax(1)
        loss = -(functional.one_hot(y, 4) * chances.log()).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        holter.log(loss=loss.item(), grad_norm=norm.item())


def scale_never_settles() -> None:
    """A scaler that doubles its scale after every second good step, so that every third step overflows."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=2)
    for x, y in batches(points, 420):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        holter.log(loss=loss.item(), loss_scale=scaler.get_scale())


def learns_by_heart() -> None:
    """Few samples, a large network, and many epochs: what is held out gets worse and worse."""
    model = classifier(16, 512)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    seen, (held_x, held_y) = points(64), points(512)
    for _ in range(20):
        model.train()
        for x, y in DataLoader(TensorDataset(*seen), batch_size=16, shuffle=True):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            holter.log(loss=loss.item())
        model.eval()
        with torch.no_grad():
            scores = model(held_x)
            held = functional.cross_entropy(scores, held_y)
        holter.log(val_loss=held.item(), val_accuracy=(scores.argmax(1) == held_y).float().mean().item())


def stands_still() -> None:
    """A schedule that has come to an end and leaves a learning rate of zero."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(step < 120))
    for x, y in batches(points, 300):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        holter.log(loss=loss.item(), lr=schedule.get_last_lr()[0])
