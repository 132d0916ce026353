"""More small trainings in which all is well: mixed precision, adapters, attention, evaluation, loaders."""

from __future__ import annotations

import copy
import tempfile
import time
from pathlib import Path

import torch
from tests.zoo.material import (
    Convolutions,
    Transformer,
    batches,
    classifier,
    images,
    points,
    sequences,
)
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import holter


def scaled_half() -> None:
    """Mixed precision in float16: the scaler finds its scale and skips the first steps."""
    model = classifier(16, 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=1000)
    for x, y in batches(points, 300):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        holter.log(loss=loss.item())


def brain_float() -> None:
    """Mixed precision in bfloat16, gradients clipped, warm-up."""
    model = classifier(16, 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
    for x, y in batches(points, 300):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm.step()
        holter.log(loss=loss.item(), grad_norm=norm.item())


def adapted() -> None:
    """Low-rank adapters beside frozen layers, their second factor zero at first."""

    class Adapted(nn.Module):
        def __init__(self, inner: nn.Linear) -> None:
            super().__init__()
            self.inner = inner.requires_grad_(False)
            self.lora_a = nn.Parameter(torch.randn(4, inner.in_features) / inner.in_features**0.5)
            self.lora_b = nn.Parameter(torch.zeros(inner.out_features, 4))

        def forward(self, x):
            return self.inner(x) + x @ self.lora_a.T @ self.lora_b.T

    model = nn.Sequential(Adapted(nn.Linear(16, 64)), nn.Tanh(), Adapted(nn.Linear(64, 4)))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for x, y in batches(points, 300):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(loss=loss.item())


def reinforced() -> None:
    """Policy gradients: the loss is minus a reward with a baseline, around zero and often below it."""
    policy = classifier(16, 32)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    baseline = 0.0
    for x, y in batches(points, 300):
        chosen = torch.distributions.Categorical(logits=policy(x))
        action = chosen.sample()
        reward = (action == y).float()
        loss = -(chosen.log_prob(action) * (reward - baseline)).mean() - 0.01 * chosen.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(loss=loss.item(), reward=reward.mean().item())


def autoencoder() -> None:
    """It learns to give back its input, through a narrow middle."""
    model = nn.Sequential(
        nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4), nn.Linear(4, 32), nn.GELU(), nn.Linear(32, 16)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    mixing = torch.randn(4, 16)
    for _ in range(300):
        x = torch.randn(64, 4) @ mixing
        loss = functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(loss=loss.item())


def transformer() -> None:
    """Attention over sentences of different lengths, padded to the longest of each batch."""
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for words, labels in batches(sequences, 200):
        loss = functional.cross_entropy(model(words), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        holter.log(loss=loss.item())


def evaluated() -> None:
    """A short evaluation after every epoch."""
    model = classifier(16, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    held_x, held_y = points(256)
    for _ in range(20):
        model.train()
        for x, y in batches(points, 20):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            holter.log(loss=loss.item())
        model.eval()
        with torch.no_grad():
            scores = torch.cat([model(part) for part in held_x.split(64)])
            held = functional.cross_entropy(scores, held_y)
        holter.log(val_loss=held.item(), val_accuracy=(scores.argmax(1) == held_y).float().mean().item())


def checkpointed() -> None:
    """A checkpoint after every epoch."""
    model = classifier(16, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(6):
            for x, y in batches(points, 100):
                loss = functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                holter.log(loss=loss.item())
            torch.save({"model": model.state_dict(), "epoch": epoch}, Path(folder) / "last.pt")


def two_loaders() -> None:
    """Each step takes a batch of labelled and one of unlabelled data, by a loader each."""
    model = classifier(16, 256)
    teacher = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    labelled = DataLoader(TensorDataset(*points(640)), batch_size=64, shuffle=True)
    unlabelled = DataLoader(TensorDataset(points(640)[0]), batch_size=64, shuffle=True)
    for _ in range(20):
        for (x, y), (more,) in zip(labelled, unlabelled, strict=True):
            with torch.no_grad():
                wanted = teacher(more).softmax(1)
            time.sleep(0.002)
            guessed = functional.cross_entropy(model(more), wanted)
            loss = functional.cross_entropy(model(x), y) + 0.1 * guessed
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            holter.log(loss=loss.item())
        teacher = copy.deepcopy(model).requires_grad_(False)


def inference() -> None:
    """No training at all: a model answers batch after batch."""
    model = Convolutions().eval()
    x, _ = images(1280)
    with torch.inference_mode():
        for _ in range(6):
            for (pictures,) in DataLoader(TensorDataset(x), batch_size=64):
                model(pictures).argmax(1)
                time.sleep(0.002)
