"""Healthy trainings whose data, weights or modes look wrong at first sight."""

from __future__ import annotations

import torch
from tests.zoo.material import Batch, batches, classifier, learn, points
from tests.zoo.sick_data import signed_targets, sorted_by_class
from tests.zoo.sick_silent import STEPS, Regular
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def normalizes_first() -> None:
    """Features in the thousands, and batch norm as first layer."""

    def features() -> Batch:
        x, y = points()
        return x * 500 + 2000, y

    learn(batches(features, STEPS), nn.Sequential(nn.BatchNorm1d(16), classifier(16, 64)))


def shuffled() -> None:
    """The twin of sorted data."""
    sorted_by_class(shuffles=True)


def zero_and_one() -> None:
    """The twin of signed targets."""
    signed_targets(low=0.0)


def contrasts_with_a_queue() -> None:
    """Momentum contrast: the first of many similarities is the right one, so all labels are 0."""
    model = nn.Linear(16, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    queue = functional.normalize(torch.randn(32, 8), dim=1)
    for x, _ in batches(points, 60):
        one = functional.normalize(model(x), dim=1)
        with torch.no_grad():
            other = functional.normalize(model(x + 0.1 * torch.randn_like(x)), dim=1)
        scores = torch.cat([(one * other).sum(1, keepdim=True), one @ queue.T], 1) / 0.1
        optimizer.zero_grad()
        functional.cross_entropy(scores, torch.zeros(64, dtype=torch.long)).backward()
        optimizer.step()
        queue = torch.cat([other, queue])[:32]


def tags_words() -> None:
    """A label for each word; of a sentence most words have one label, and sentences differ."""
    model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(60):
        y = torch.randint(0, 4, (1,)).expand(4, 12).clone()
        words = y * 4 + torch.randint(0, 4, (4, 12))
        optimizer.zero_grad()
        functional.cross_entropy(model(words).flatten(0, 1), y.flatten()).backward()
        optimizer.step()


def clamps_its_weights() -> None:
    """Weights are clamped after each step, as those of a Wasserstein critic; few exceed the limit."""
    model = classifier(16, 64)

    def clamp(step: int) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-0.3, 0.3)
            model[0].weight[:, 3] = 0

    learn(batches(points, STEPS), model, after=clamp)


def averages_with_dropout() -> None:
    """Monte Carlo dropout: many random results for one input, on purpose."""
    model = Regular()

    def evaluate(step: int) -> None:
        if step % 6 == 5:
            x, y = points()
            with torch.no_grad():
                results = torch.stack([model(x) for _ in range(5)])
                functional.cross_entropy(results.mean(0), y)

    learn(batches(points, STEPS), model, after=evaluate)


def recalibrates_norms() -> None:
    """Batch norm learns from a pass over the data without gradients, before an evaluation."""
    model, data = Regular(), DataLoader(TensorDataset(*points(64)), 16)

    def evaluate(step: int) -> None:
        if step % 6 == 5:
            if step == 5:
                torch.optim.swa_utils.update_bn(data, model)
            model.train()
            with torch.no_grad():
                for x, _ in data:
                    model(x)
            model.eval()
            with torch.no_grad():
                functional.cross_entropy(model(points()[0]), points()[1])
            model.train()

    learn(batches(points, STEPS), model, after=evaluate)


def labels_itself() -> None:
    """Self-training: the model gives labels to new data, without gradients and in training mode."""
    model = Regular()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in DataLoader(TensorDataset(*points(640)), 16):
        new, _ = points(16)
        with torch.no_grad():
            guessed = model(new).softmax(1)
        sure = guessed.amax(1) > 0.6
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        (loss + 0.1 * functional.cross_entropy(model(new), guessed * sure[:, None])).backward()
        optimizer.step()


def unfreezes_gradually() -> None:
    """The first layer begins to train after some steps, behind an evaluation."""
    model = Regular()
    model.first.requires_grad_(False)
    for part in range(2):
        learn(batches(points, STEPS), model)
        model.eval()
        with torch.no_grad():
            model(points()[0])
        model.train()
        if part == 0:
            model.first.requires_grad_(True)
