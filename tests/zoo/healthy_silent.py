"""Healthy trainings that resemble silent errors."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable

import torch
from tests.zoo.material import batches, classifier, learn, points, scheduled
from tests.zoo.sick_silent import Regular
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def accumulates_irregularly() -> None:
    """One to five batches for each step; gradients are cleared after it."""
    model, lengths = classifier(16, 64), random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(30):
        for x, y in batches(points, lengths.choice([1, 2, 5])):
            functional.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


class Adapted(nn.Module):
    """A frozen model with a low-rank adapter."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Regular().requires_grad_(False)
        self.lora_a, self.lora_b = nn.Linear(16, 2, bias=False), nn.Linear(2, 4, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.lora_b(self.lora_a(x))


def adapts() -> None:
    """Only the adapter trains."""
    learn(batches(points, 40), Adapted())


def tunes_the_head() -> None:
    """Only the last layer trains, and batch norm stays in evaluation mode."""
    model = Regular()
    for part in (model.first, model.norm):
        part.requires_grad_(False)
    model.norm.eval()
    learn(batches(points, 40), model)


def repeats_short_epochs() -> None:
    """Five batches in the same order in each epoch."""
    loader = DataLoader(TensorDataset(torch.randn(40, 16), torch.randint(0, 4, (40,))), batch_size=8)
    model = classifier(16, 64)
    for _ in range(8):
        learn(loader, model)


def critic_and_generator() -> None:
    """A critic steps with each batch, the generator with every fifth."""
    generator, critic = nn.Linear(8, 16), classifier(16, 32)
    of_generator = torch.optim.Adam(generator.parameters(), 1e-3)
    of_critic = torch.optim.Adam(critic.parameters(), 1e-3)
    for i, (x, _) in enumerate(DataLoader(TensorDataset(*points(1600)), 16)):
        of_critic.zero_grad()
        fake = generator(torch.randn(16, 8)).detach()
        (functional.softplus(critic(fake)).mean() + functional.softplus(-critic(x)).mean()).backward()
        of_critic.step()
        if i % 5 == 4:
            of_generator.zero_grad()
            functional.softplus(-critic(generator(torch.randn(16, 8)))).mean().backward()
            of_generator.step()


def warms_up_from_zero() -> None:
    """The learning rate begins with 0."""
    scheduled(lambda step: min(step / 20, 1.0))


def factorizes() -> None:
    """Embeddings alone: most of their rows have no gradient at a step."""
    users, items = nn.Embedding(4000, 8), nn.Embedding(4000, 8)
    optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.05)
    for _ in range(40):
        pairs = torch.randint(0, 4000, (16, 2))
        optimizer.zero_grad()
        guess = (users(pairs[:, 0]) * items(pairs[:, 1])).sum(1)
        (guess - (pairs.sum(1) % 2)).pow(2).mean().backward()
        optimizer.step()


def decays_to_zero() -> None:
    """The learning rate follows a cosine to 0."""
    scheduled(lambda step: 0.5 * (1 + math.cos(math.pi * step / 60)))


def distills_its_average() -> None:
    """A moving average of the model, which never receives gradients, is its teacher."""
    model = classifier(16, 64)
    teacher = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(points, 40):
        with torch.no_grad():
            target = teacher(x).softmax(1)
        output = model(x)
        loss = functional.cross_entropy(output, y)
        loss = loss + functional.kl_div(output.log_softmax(1), target, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, other in zip(teacher.parameters(), model.parameters(), strict=True):
                mine.lerp_(other, 0.1)


def repeats_one_batch() -> None:
    """Overfits one batch on purpose."""
    loader = DataLoader(TensorDataset(*points(16)), 16)
    learn(batch for _ in range(40) for batch in loader)


def learns_to_learn() -> None:
    """Gradients through an inner step."""
    model = classifier(16, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in batches(points, 30):
        optimizer.zero_grad()
        weights = dict(model.named_parameters())
        inner = functional.cross_entropy(torch.func.functional_call(model, weights, (x,)), y)
        gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        pairs = zip(weights.items(), gradients, strict=True)
        weights = {name: value - 0.1 * gradient for (name, value), gradient in pairs}
        functional.cross_entropy(torch.func.functional_call(model, weights, (x,)), y).backward()
        optimizer.step()


def closes_over_its_loss() -> None:
    """L-BFGS, which computes gradients within its steps."""
    model, (x, y) = nn.Linear(16, 4), points()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(15):
        optimizer.step(closure)


def _between_steps(model: nn.Module, work: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
    """Train, and do something in evaluation mode after every fourth step."""

    def after(step: int) -> None:
        if step % 4 == 3:
            model.eval()
            for x, y in batches(points, 3):
                work(x, y)
            model.train()

    learn(batches(points, 40), model, after=after)


def attacks_itself() -> None:
    """Evaluates clean samples, and samples that gradients of the evaluation change."""
    model = classifier(16, 64)

    def attack(x: torch.Tensor, y: torch.Tensor) -> None:
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad(functional.cross_entropy(model(x), y), x)
        model((x + 0.1 * slope.sign()).detach())

    _between_steps(model, attack)


def adapts_to_tasks() -> None:
    """Evaluates a copy of its weights after an inner step, as meta-learning does."""
    model = classifier(16, 64)

    def adapt(x: torch.Tensor, y: torch.Tensor) -> None:
        weights = dict(model.named_parameters())
        inner = functional.cross_entropy(model(x), y)
        slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        pairs = zip(weights.items(), slopes, strict=True)
        moved = {name: value - 0.1 * slope for (name, value), slope in pairs}
        torch.func.functional_call(model, moved, (x,))

    _between_steps(model, adapt)


def perceives() -> None:
    """A frozen network in evaluation mode, which has been trained before, is part of the loss."""
    judge, maker = classifier(16, 64), classifier(16, 64)
    learn(batches(points, 5), judge)
    judge.requires_grad_(False).eval()
    optimizer = torch.optim.Adam(maker.parameters(), lr=1e-3)
    for x, y in batches(points, 40):
        optimizer.zero_grad()
        made = maker(x)
        target = judge(x)
        loss = functional.cross_entropy(made, y) + functional.mse_loss(judge(x + made.mean()), target)
        loss.backward()
        optimizer.step()


def agrees_with_itself() -> None:
    """The loss compares an output in evaluation mode with one in training mode."""
    model = Regular()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(points, 40):
        optimizer.zero_grad()
        model.eval()
        steady = model(x)
        model.train()
        output = model(x)
        loss = functional.cross_entropy(output, y) + functional.mse_loss(output, steady)
        loss.backward()
        optimizer.step()
