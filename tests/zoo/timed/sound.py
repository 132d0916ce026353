"""Healthy trainings of many kinds: none of them has a bottleneck, and no rule may warn of them."""

from __future__ import annotations

import random
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tests.zoo.timed.clock import batch, main, net, stepped, train
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.zoo.timed.clock import Batch

cross_entropy = nn.functional.cross_entropy


def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """Take one step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    stepped()


def transformer_with_warm_up() -> None:
    body = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2)
    words, head = nn.Embedding(100, 64), nn.Linear(64, 4)
    model = nn.Sequential(words, body)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
    for _ in range(120):
        tokens = torch.randint(0, 100, (16, 32))
        update(optimizer, cross_entropy(head(model(tokens).mean(1)), tokens[:, 0] % 4))
        warm.step()


def second_order() -> None:
    model, (inputs, targets) = net(), batch()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        return loss

    for _ in range(40):
        optimizer.step(closure)
        stepped()


def mixed_precision() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(100):
        inputs, targets = batch(128)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = cross_entropy(model(inputs), targets)
        update(optimizer, loss)


class Cached(Dataset[Any]):
    """Decodes each sample once and keeps it."""

    def __init__(self) -> None:
        self.kept: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return 8 * 32

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        if at not in self.kept:
            time.sleep(0.001)
            self.kept[at] = torch.full((256,), at / len(self))
        return self.kept[at], at % 4


def warm_cache() -> None:
    loader, model = DataLoader(Cached(), batch_size=32), net(1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(25):
        train(loader, model=model, optimizer=optimizer)


def short_epochs() -> None:
    loader, model = DataLoader(TensorDataset(*batch(256)), batch_size=64, shuffle=True), net(1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(30):
        train(loader, model=model, optimizer=optimizer)


def policy_gradient() -> None:
    """Reinforcement learning: no loader, and a cheap environment."""
    policy = net()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(100):
        seen, right = batch(128)
        chosen = torch.distributions.Categorical(logits=policy(seen))
        action = chosen.sample()
        update(optimizer, -(chosen.log_prob(action) * (action == right).float()).mean())


def replayed_games() -> None:
    """Q-learning from a buffer of games."""
    model, target = net(), net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    games: deque[tuple[torch.Tensor, int]] = deque(maxlen=2000)
    for step in range(150):
        games.extend((torch.randn(256), random.randrange(4)) for _ in range(4))
        picked = random.choices(games, k=128)
        seen, action = torch.stack([one[0] for one in picked]), torch.tensor([one[1] for one in picked])
        with torch.no_grad():
            wanted = target(seen).max(1).values
        update(optimizer, nn.functional.mse_loss(model(seen).gather(1, action[:, None])[:, 0], wanted))
        if step % 50 == 49:
            target.load_state_dict(model.state_dict())


def word_model() -> None:
    words, cells, head = nn.Embedding(500, 64), nn.LSTM(64, 128), nn.Linear(128, 500)
    parameters = [*words.parameters(), *cells.parameters(), *head.parameters()]
    text, hidden = torch.randint(0, 500, (35 * 90, 8)), None
    for at in range(0, len(text) - 36, 35):
        given, wanted = text[at : at + 35], text[at + 1 : at + 36]
        made, hidden = cells(words(given), hidden)
        hidden = tuple(one.detach() for one in hidden)
        loss = cross_entropy(head(made).flatten(0, 1), wanted.flatten())
        loss.backward()
        with torch.no_grad():
            for one in parameters:
                one.add_(one.grad, alpha=-0.1)
                one.grad = None
        stepped()


def adversaries() -> None:
    """Two networks with an optimizer each."""
    maker = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 256))
    critic = nn.Sequential(nn.Linear(256, 512), nn.LeakyReLU(), nn.Linear(512, 1))
    first = torch.optim.Adam(critic.parameters(), lr=2e-4)
    second = torch.optim.Adam(maker.parameters(), lr=2e-4)
    judged = nn.functional.binary_cross_entropy_with_logits
    for _ in range(100):
        real, made = torch.randn(128, 256), maker(torch.randn(128, 64))
        first.zero_grad()
        loss = judged(critic(real), torch.ones(128, 1)) + judged(critic(made.detach()), torch.zeros(128, 1))
        loss.backward()
        first.step()
        update(second, judged(critic(made), torch.ones(128, 1)))


class Records(IterableDataset[Any]):
    """Yields batches that are ready."""

    def __iter__(self) -> Iterator[Batch]:
        for _ in range(120):
            yield batch(128)


def iterable_dataset() -> None:
    train(DataLoader(Records(), batch_size=None))


def gradient_accumulation() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(50):
        optimizer.zero_grad()
        for _ in range(4):
            inputs, targets = batch(128)
            (cross_entropy(model(inputs), targets) / 4).backward()
        optimizer.step()
        stepped()


def evaluates_a_little() -> None:
    model, loader = net(), DataLoader(TensorDataset(*batch(64 * 30)), batch_size=64)
    held, optimizer = batch(128), torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        model.train()
        train(loader, model=model, optimizer=optimizer)
        model.eval()
        with torch.no_grad():
            cross_entropy(model(held[0]), held[1]).item()


def saves_seldom() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        train([batch()] * 60, model=model, optimizer=optimizer)
        torch.save(model.state_dict(), "model.pt")


def logs_a_line() -> None:
    with Path("log.txt").open("a") as log:
        train([batch()] * 150, after=lambda step, _: log.write(f"{step}\n"))


def recomputes_activations() -> None:
    body, head = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)), nn.Linear(256, 4)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
    for _ in range(120):
        inputs, targets = batch()
        update(optimizer, cross_entropy(head(checkpoint(body, inputs, use_reentrant=False)), targets))


def frozen_backbone() -> None:
    body, head = net(1024).requires_grad_(False), nn.Linear(4, 4)
    train(
        [batch()] * 100,
        model=nn.Sequential(body, head),
        optimizer=torch.optim.SGD(head.parameters(), lr=0.01),
    )


def convolutions() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(256, 4),
    )  # fmt: skip
    train([(torch.randn(16, 3, 64, 64), torch.randint(0, 4, (16,)))] * 100, model=model)


class Hidden(Dataset[Any]):
    """Samples that take a while, which a worker hides behind the training."""

    def __len__(self) -> int:
        return 16 * 60

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        if at % 16 == 0:
            time.sleep(0.004)
        return torch.full((256,), at / len(self)), at % 4


def worker_keeps_up() -> None:
    class Device(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            time.sleep(0.02)  # as a device that computes
            return inputs

    train(DataLoader(Hidden(), batch_size=16, num_workers=1), model=nn.Sequential(Device(), net(64)))


if __name__ == "__main__":
    main(globals())
