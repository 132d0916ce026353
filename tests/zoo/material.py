"""Data and models that the trainings of the zoo share: small, made up, and learnable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import nn
from torch.nn import functional

Batch = tuple[torch.Tensor, torch.Tensor]
CENTRES = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
PATTERNS = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(2))


def points(count: int = 64) -> Batch:
    """Make points around four centres, close enough to one another that no model tells all apart."""
    labels = torch.randint(0, 4, (count,))
    return CENTRES[labels] * 0.6 + torch.randn(count, 16), labels


def images(count: int = 64) -> Batch:
    """Make pictures of four patterns in noise, of mean 0 and standard deviation 1."""
    labels = torch.randint(0, 4, (count,))
    return (PATTERNS[labels] + torch.randn(count, 1, 8, 8)) / 2**0.5, labels


def sequences(count: int = 64) -> Batch:
    """Make sentences of 9 to 12 words whose class is that of their third word; 0 is padding."""
    words = torch.randint(1, 20, (count, 12))
    lengths = torch.randint(9, 13, (count,))
    words[torch.arange(12) >= lengths[:, None]] = 0
    return words, words[:, 2] % 4


def batches(made: Callable[[], Batch], count: int) -> Iterator[Batch]:
    """Yield so many batches, each of new data."""
    return (made() for _ in range(count))


def classifier(features: int, width: int) -> nn.Sequential:
    """Return a perceptron of one hidden layer that tells four classes apart."""
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, 4))


def learn(
    data: Iterable[Batch],
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    lr: float = 0.05,
    after: Callable[[int], None] = lambda step: None,
) -> None:
    """Train on what `data` gives, in the plainest of loops; `after` is called after each step."""
    model = classifier(16, 64) if model is None else model
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=lr)
    for step, (x, y) in enumerate(data):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after(step)


class Convolutions(nn.Module):
    """Two convolutions with ReLU, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()
        self.conv2, self.relu2 = nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU()
        self.fc = nn.Linear(16 * 16, 4)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        features = self.relu2(self.conv2(self.relu1(self.conv1(pictures))))
        return self.fc(features.flatten(1))


class Transformer(nn.Module):
    """One block of self-attention over words, with the class read off the mean of all that are no padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 32), nn.Parameter(torch.randn(12, 32) * 0.02)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.up, self.gelu, self.down = nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)
        self.fc = nn.Linear(32, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        padding = words == 0
        x = self.words(words) + self.places
        n = self.norm1(x)
        x = x + self.attention(n, n, n, key_padding_mask=padding, need_weights=False)[0]
        x = x + self.down(self.gelu(self.up(self.norm2(x))))
        return self.fc(x[:, 0])


def scheduled(factor: Callable[[int], float]) -> None:
    """Train for 60 steps with a learning rate that is 0.1 times a function of the step."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for x, y in batches(points, 60):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()
