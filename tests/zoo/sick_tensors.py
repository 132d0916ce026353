"""Small trainings whose tensors tell what is wrong: weights, gradients, activations, inputs, labels."""

from __future__ import annotations

import torch
from tests.zoo.material import (
    Convolutions,
    Transformer,
    batches,
    classifier,
    images,
    learn,
    points,
    sequences,
)
from torch import nn
from torch.nn import functional

import holter


def deep_sigmoid() -> None:
    """Twelve layers of sigmoid: hardly anything of the gradient reaches the first ones."""
    layers: list[nn.Module] = [nn.Linear(16, 32), nn.Sigmoid()]
    for _ in range(11):
        layers += [nn.Linear(32, 32), nn.Sigmoid()]
    learn(batches(points, 60), nn.Sequential(*layers, nn.Linear(32, 4)))


def rate_too_high() -> None:
    """A learning rate a hundred times too high, from the start."""
    learn(batches(points, 60), classifier(16, 64), lr=30.0)


def overflows() -> None:
    """A learning rate so high that weights become infinite, and then no number."""
    learn(batches(images, 40), Convolutions(), lr=1e18)


def forgotten_layer() -> None:
    """The optimizer was not given the first layer."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.05)
    for x, y in batches(points, 80):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def unused_branch() -> None:
    """The optimizer holds a layer that the forward pass never calls."""

    class Branched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.unused = classifier(16, 64), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    learn(batches(points, 260), Branched())


def dead() -> None:
    """Biases that keep a layer of ReLU below zero for whatever is given."""
    model = Convolutions()
    with torch.no_grad():
        model.conv2.bias.fill_(-50.0)
    learn(batches(images, 150), model)


def flat() -> None:
    """Tanh far from the middle, where it is flat."""
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    with torch.no_grad():
        model[0].bias.fill_(40.0)
    learn(batches(lambda: points(512), 120), model)


def flat_well() -> None:
    """Tanh where it bends."""
    learn(batches(lambda: points(512), 120), nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)))


def poorly_initialised() -> None:
    """Layers of very different scale from the start, and it does not learn."""
    model = nn.Sequential(
        nn.Linear(16, 32),
        nn.ReLU(),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Linear(32, 4),
    )
    with torch.no_grad():
        for place in (2, 4):
            model[place].weight.mul_(0.001)
            model[place].bias.zero_()
    noise = ((x, torch.randint(0, 4, y.shape)) for x, y in batches(points, 300))
    learn(noise, model, lr=1e-4)


def uneven() -> None:
    """Weights of eight layers whose sizes lie many decades apart, with gradients the other way."""
    layers: list[nn.Module] = [nn.Linear(16, 32)]
    for place in range(8):
        layers += [nn.Tanh(), nn.Linear(32, 32)]
        with torch.no_grad():
            layers[-1].weight.mul_(1e-6 if place == 3 else 1.0)
    learn(batches(points, 220), nn.Sequential(*layers, nn.Linear(32, 4)), lr=1e-3)


def uneven_well() -> None:
    """Eight layers of one scale."""
    layers: list[nn.Module] = [nn.Linear(16, 32)]
    for _ in range(8):
        layers += [nn.Tanh(), nn.Linear(32, 32)]
    learn(batches(points, 220), nn.Sequential(*layers, nn.Linear(32, 4)), lr=0.05)


def collapses() -> None:
    """Weight decay that is so strong that nothing is left of the weights."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1.0)
    for x, y in batches(points, 100):
        loss = functional.cross_entropy(model(x), torch.randint(0, 4, y.shape))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def rounds_away() -> None:
    """Weights in bfloat16 and updates so small that rounding swallows nearly all of them."""
    holter.watch(save=["weights@1", "gradients@1"])
    model = classifier(16, 64).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for x, y in batches(points, 400):
        loss = functional.cross_entropy(model(x.bfloat16()).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def rounds_away_well() -> None:
    """The same updates of weights in float32."""
    holter.watch(save=["weights@1", "gradients@1"])
    learn(batches(points, 400), classifier(16, 64), lr=0.001)


def near_overflow() -> None:
    """Activations that come close to the largest number of float16, under a scaler."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    with torch.no_grad():
        model[0].weight.mul_(15000)
        model[2].weight.mul_(1e-5)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    for x, y in batches(points, 120):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def raw_pixels() -> None:
    """Pixels from 0 to 255, as they came out of the files."""

    def pixels() -> tuple[torch.Tensor, torch.Tensor]:
        pictures, labels = images(64)
        return (pictures * 40 + 128).clamp(0, 255), labels

    learn(batches(pixels, 100), Convolutions(), lr=1e-6)


def lopsided() -> None:
    """Nine of ten labels are one class, two others are rare and never told apart."""
    model, criterion = classifier(16, 32), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(200):
        x, y = points(128)
        kept = (y == 0) | (torch.rand(len(y)) < 0.03)
        y = torch.where(kept, y, torch.zeros_like(y))
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def lopsided_well() -> None:
    """Labels of four classes, equally many of each."""
    model, criterion = classifier(16, 32), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for x, y in batches(lambda: points(128), 200):
        loss = criterion(model(x * 2), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def mostly_padding() -> None:
    """Sentences of five words in rows of twelve."""

    def short() -> tuple[torch.Tensor, torch.Tensor]:
        words, labels = sequences(64)
        words[:, 5:] = 0
        return words, labels

    learn(batches(short, 120), Transformer())


def same_again() -> None:
    """Every epoch brings the same batches in the same order."""
    kept = [points(64) for _ in range(7)]
    learn((kept[step % 7] for step in range(240)), classifier(16, 64))


class Router(nn.Module):
    """Sends each point to one of eight experts, by weights that may prefer the first by far."""

    def __init__(self, preference: float) -> None:
        super().__init__()
        self.gate, self.router_counts = nn.Linear(16, 8), nn.Identity()
        self.experts = nn.ModuleList([nn.Linear(16, 4) for _ in range(8)])
        with torch.no_grad():
            self.gate.bias[0] += preference

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(1)
        chosen = weights.argmax(1)
        self.router_counts(torch.bincount(chosen, minlength=8).float())
        out = torch.stack([expert(x) for expert in self.experts], 1)
        return (out * weights[:, :, None]).sum(1)


def lonely_expert() -> None:
    """A router that sends everything to one expert."""
    holter.watch(save=["/router_counts_output/@1:values"])
    learn(batches(lambda: points(256), 160), Router(40.0), lr=0.01)


def lonely_expert_well() -> None:
    """A router that sends something to every expert."""
    holter.watch(save=["/router_counts_output/@1:values"])
    learn(batches(lambda: points(256), 160), Router(0.0), lr=0.01)


class Logarithm(nn.Module):
    """Takes a logarithm, from some call on of what may be zero."""

    def __init__(self, good_calls: int) -> None:
        super().__init__()
        self.left = good_calls

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.left -= 1
        return (x.relu() + float(self.left >= 0)).log()


def nan_in_one_module() -> None:
    """A transformer in which one module takes the logarithm of zero, from some step on."""
    model = Transformer()
    model.gelu = Logarithm(59)
    learn(batches(sequences, 80), model)
