"""Healthy trainings of shapes that people write less often: losses, steps and data that are odd by design."""

from __future__ import annotations

import math

import torch
from tests.zoo.material import Convolutions, Transformer, batches, classifier, images, points, sequences
from torch import nn
from torch.nn import functional

import holter


def warmed_up_cosine() -> None:
    """A transformer with warm-up and a cosine down to zero, label smoothing, and clipping."""
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    steps, warm = 300, 40

    def share(step: int) -> float:
        return min((step + 1) / warm, (1 + math.cos(math.pi * step / steps)) / 2)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    for words, labels in batches(sequences, steps):
        loss = functional.cross_entropy(model(words), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        holter.log(loss=loss.item(), grad_norm=norm.item(), lr=schedule.get_last_lr()[0])


def episodes() -> None:
    """Policy gradients of a walk to a goal: episodes of any length, an update after each."""
    policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    usual = 0.0
    for _ in range(120):
        place, chances, steps = torch.randint(-4, 5, (1,)).item(), [], 0
        while abs(place) < 6 and steps < 30:
            seen = torch.tensor([place / 6, 1.0])
            choice = torch.distributions.Categorical(logits=policy(seen))
            move = choice.sample()
            chances.append(choice.log_prob(move))
            place, steps = place + (1 if move.item() else -1), steps + 1
        gain = (1.0 if place >= 6 else -1.0) - 0.01 * steps
        loss = -(gain - usual) * torch.stack(chances).mean()
        usual += 0.1 * (gain - usual)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(policy_loss=loss.item(), episode_return=gain, episode_length=steps)


def accumulated_and_clipped() -> None:
    """Gradients of a varying number of small batches make one step, which is clipped nearly always."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for number in range(150):
        parts, total = 2 + number % 3, 0.0
        optimizer.zero_grad()
        for x, y in batches(lambda: points(16), parts):
            loss = functional.cross_entropy(model(x), y) / parts
            loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        holter.log(loss=total, grad_norm=norm.item())


def contrastive() -> None:
    """Two encoders pulled together by a shared temperature, each with an optimizer's group of its own."""
    first, second = (nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(2))
    heat = nn.Parameter(torch.tensor(math.log(10.0)))
    optimizer = torch.optim.AdamW(
        [
            {"params": first.parameters(), "lr": 2e-3},
            {"params": second.parameters(), "lr": 1e-3},
            {"params": [heat], "lr": 1e-3, "weight_decay": 0.0},
        ]
    )
    for x, _ in batches(points, 250):
        one = functional.normalize(first(x), dim=1)
        two = functional.normalize(second(x + 0.3 * torch.randn_like(x)), dim=1)
        logits = heat.exp() * one @ two.T
        same = torch.arange(len(x))
        loss = (functional.cross_entropy(logits, same) + functional.cross_entropy(logits.T, same)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(loss=loss.item(), temperature=heat.exp().item())


def thawed() -> None:
    """A trunk that stays frozen, in evaluation mode, for the first half, then learns at a smaller rate."""
    model = Convolutions()
    trunk = [model.conv1, model.conv2]
    for layer in trunk:
        layer.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.fc.parameters(), lr=2e-3)
    for number, (pictures, labels) in enumerate(batches(images, 200)):
        if number == 100:
            for layer in trunk:
                layer.requires_grad_(True)
            optimizer.add_param_group(
                {"params": [p for layer in trunk for p in layer.parameters()], "lr": 2e-4}
            )
        loss = functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(loss=loss.item())


def mostly_evaluates() -> None:
    """A few steps between long evaluations of three held-out sets, as in a search for parameters."""
    model = classifier(16, 48)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    held = [points(2048) for _ in range(3)]
    for _ in range(12):
        model.train()
        for x, y in batches(points, 10):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            holter.log(loss=loss.item())
        model.eval()
        with torch.no_grad():
            for number, (x, y) in enumerate(held):
                losses = [
                    functional.cross_entropy(model(x[i : i + 64]), y[i : i + 64]).item()
                    for i in range(0, 2048, 64)
                ]
                holter.log(**{f"val_loss/{number}": sum(losses) / len(losses)})
