"""Small trainings of different shapes, in each of which all is well; more are in `healthy_special`.

Each is what its name says, on data it can learn, for one to three seconds. They are written as people write
such loops: nothing in them knows of holter but `holter.log` for numbers that no recorder can guess.
"""

from __future__ import annotations

import math
import time

import torch
from tests.zoo.material import (
    Convolutions,
    batches,
    classifier,
    images,
    points,
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
