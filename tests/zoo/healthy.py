"""Twenty small trainings of different shapes, in each of which all is well.

Each is what its name says, on data it can learn, for one to three seconds. They are written as people write
such loops: nothing in them knows of holter but `holter.log` for numbers that no recorder can guess.
"""

from __future__ import annotations

import copy
import math
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
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import holter


def tiny() -> None:
    """A perceptron of a few hundred weights, data in memory."""
    model = classifier(16, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for x, y in batches(points, 400):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(loss=loss.item())


def convolutions() -> None:
    """A convolutional network on the CPU, with a loader, momentum and a cosine schedule."""
    model, criterion = Convolutions(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 160)
    x, y = images(1280)
    for _ in range(8):
        for pictures, labels in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
            loss = criterion(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            holter.log(loss=loss.item(), lr=schedule.get_last_lr()[0])


def bursty() -> None:
    """Data that comes in bursts: most batches at once, a few after a short wait."""
    model = classifier(16, 256)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    class Bursts(IterableDataset):
        def __iter__(self):
            for number, batch in enumerate(batches(points, 250)):
                if number % 25 == 24:
                    time.sleep(0.004)
                yield batch

    for x, y in DataLoader(Bursts(), batch_size=None):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.002)
        holter.log(loss=loss.item())


def stopped_early() -> None:
    """It ends as soon as the loss of the validation has not fallen for three epochs."""
    model = classifier(16, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    held_x, held_y = points(512)
    best, patience = math.inf, 0
    for _ in range(30):
        model.train()
        for x, y in batches(points, 25):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            holter.log(loss=loss.item())
        model.eval()
        with torch.no_grad():
            held = functional.cross_entropy(model(held_x), held_y).item()
        holter.log(val_loss=held)
        best, patience = (held, 0) if held < best - 0.005 else (best, patience + 1)
        if patience == 3:
            return


def frozen() -> None:
    """A frozen feature extractor under a head that learns."""
    body, head = classifier(16, 64)[:2], nn.Linear(64, 4)
    for parameter in body.parameters():
        parameter.requires_grad_(False)
    model = nn.Sequential(body, head)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for x, y in batches(points, 300):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(loss=loss.item())


def sparse_embeddings() -> None:
    """Embeddings with sparse gradients: in each step most rows are not touched."""
    bag = nn.EmbeddingBag(5000, 16, sparse=True)
    head = nn.Linear(16, 4)
    model = nn.Sequential(bag, head)
    rows, dense = torch.optim.SparseAdam(bag.parameters(), lr=0.01), torch.optim.Adam(head.parameters())
    for _ in range(300):
        y = torch.randint(0, 4, (128,))
        words = torch.randint(0, 1250, (128, 12)) * 4 + y[:, None]
        loss = functional.cross_entropy(model(words), y)
        rows.zero_grad()
        dense.zero_grad()
        loss.backward()
        rows.step()
        dense.step()
        holter.log(loss=loss.item())


def adversarial() -> None:
    """Two networks with an optimizer each, whose losses go up and down against one another."""
    makes = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
    judges = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    for_makes = torch.optim.Adam(makes.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for_judges = torch.optim.Adam(judges.parameters(), lr=1e-3, betas=(0.5, 0.9))
    one, zero = torch.ones(64, 1), torch.zeros(64, 1)
    for _ in range(250):
        real = torch.randn(64, 2) * 0.3 + 1
        fake = makes(torch.randn(64, 8))
        judged = functional.binary_cross_entropy_with_logits
        d_loss = judged(judges(real), one * 0.9) + judged(judges(fake.detach()), zero)
        for_judges.zero_grad()
        d_loss.backward()
        for_judges.step()
        g_loss = judged(judges(fake), one)
        for_makes.zero_grad()
        g_loss.backward()
        for_makes.step()
        holter.log(d_loss=d_loss.item(), g_loss=g_loss.item())


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


def quasi_newton() -> None:
    """LBFGS, which calls forward and backward many times a step."""
    model = classifier(16, 32)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=6, history_size=5)
    x, y = points(512)

    def closure():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y) + 1e-4 * sum(
            p.square().sum() for p in model.parameters()
        )
        loss.backward()
        return loss

    for _ in range(40):
        holter.log(loss=optimizer.step(closure).item())


def accumulated() -> None:
    """Gradients of four batches make one step."""
    model = classifier(16, 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    total = 0.0
    for number, (x, y) in enumerate(batches(points, 600)):
        loss = functional.cross_entropy(model(x), y) / 4
        loss.backward()
        total += loss.item()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
            holter.log(loss=total)
            total = 0.0


def fine_tuned() -> None:
    """A network that has learned is tuned to slightly different data with a small learning rate."""
    model = classifier(16, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x, y in batches(points, 60):
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for x, y in batches(points, 300):
        loss = functional.cross_entropy(model(x + 0.05), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        holter.log(loss=loss.item())


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
