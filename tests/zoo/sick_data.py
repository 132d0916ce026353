"""Small trainings whose data, weights or modes are wrong, though no error message says so."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tests.zoo.material import Batch, Convolutions, batches, classifier, images, learn, points
from tests.zoo.sick_silent import STEPS, Regular
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def changed(change: Callable[[torch.Tensor], torch.Tensor], label: int | None = None) -> Callable[[], Batch]:
    """Return a function that makes points with other inputs, or with one label only."""

    def made() -> Batch:
        x, y = points()
        return change(x), y if label is None else torch.full_like(y, label)

    return made


def pixels(count: int = 64) -> Batch:
    """Make pictures with pixels of 0 to 255."""
    pictures, labels = images(count)
    return (pictures * 40 + 128).clamp(0, 255).round(), labels


def learns_from_nothing() -> None:
    """All inputs are zero, as after a transform that divides integers."""
    learn(batches(changed(torch.zeros_like), STEPS))


def gaps(x: torch.Tensor) -> torch.Tensor:
    """Remove a value of each third sample."""
    x[::3, 5] = float("nan")
    return x


def learns_from_gaps() -> None:
    """Inputs contain NaN."""
    learn(batches(changed(gaps), 5))


class Scaling(Convolutions):
    """Scales pixels itself."""

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return super().forward(pictures / 128 - 1)


def scales_pixels_itself() -> None:
    """The twin: the model scales its pixels. CheckInputImages, which sees inputs only, reports them."""
    learn(batches(pixels, STEPS), Scaling())


class Filling(nn.Sequential):
    """Replaces missing values by 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.nan_to_num(0.0))


def fills_gaps() -> None:
    """The twin: the model replaces NaN. ExplodingTensor, which sees inputs only, reports it."""
    learn(batches(changed(gaps), STEPS), Filling(classifier(16, 64)))


def labels_one_class() -> None:
    """All labels are 3."""
    learn(batches(changed(torch.clone, label=3), STEPS))


def rare_positives() -> None:
    """The twin: two classes, of which one is rare. ClassImbalance reports it."""
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))

    def rare() -> Batch:
        x, _ = points()
        y = (torch.rand(64) < 0.002).long()
        return x + y[:, None], y

    learn(batches(rare, 120), model)


def sorted_by_class(*, shuffles: bool = False) -> None:
    """The data of four classes, one class after the other."""
    x, y = points(1280)
    order = y.argsort()
    loader = DataLoader(TensorDataset(x[order], y[order]), 16, shuffle=shuffles)
    learn(batch for _ in range(2) for batch in loader)


def signed_targets(*, low: float = -1.0) -> None:
    """Binary targets are -1 and 1."""
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches(points, STEPS):
        target = (y > 1).float() * (1 - low) + low
        optimizer.zero_grad()
        functional.binary_cross_entropy_with_logits(model(x).squeeze(1), target).backward()
        optimizer.step()


def ignores_all_labels() -> None:
    """The index that is ignored is the only label, so the sum of losses is 0."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches(points, STEPS):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), torch.full_like(y, -100), reduction="sum").backward()
        optimizer.step()


def flips_a_bit() -> None:
    """A device flips a bit of the exponent of one weight after step 3."""
    model = classifier(16, 64)

    def flip(step: int) -> None:
        if step == 3:
            with torch.no_grad():
                model[0].weight.view(torch.int32)[0, 0] ^= 1 << 27

    learn(batches(points, STEPS), model, after=flip, lr=0.01)


def flips_between() -> None:
    """A weight becomes huge at a step between two that are watched, and gradients are clipped."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(batches(points, STEPS)):
        optimizer.zero_grad()
        functional.cross_entropy(model(x).clamp(-100, 100), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step == 5:
            with torch.no_grad():
                model[2].weight[0, 0] = 1e9


def evaluates_in_training_mode(*, loader: bool = False) -> None:
    """Nothing calls `eval` before the losses of an evaluation are computed."""
    model, data = Regular(), DataLoader(TensorDataset(*points(64)), 16)

    def evaluate(step: int) -> None:
        if step % 6 != 5:
            return
        with torch.no_grad():
            if not loader:
                x, y = points()
                functional.cross_entropy(model(x), y)
                return
            for x, y in data:
                (model(x).argmax(1) == y).float().mean()

    learn(batches(points, STEPS), model, after=evaluate)


def passes_in_training_mode() -> None:
    """The same with a loader, and with the accuracy only."""
    evaluates_in_training_mode(loader=True)


class Thawing(Regular):
    """Its first layer is frozen until `train` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.first.requires_grad_(False)

    def train(self, mode: bool = True) -> Thawing:
        super().train(mode)
        self._set_trainable(mode)
        return self

    def _set_trainable(self, mode: bool) -> None:
        for parameter in self.parameters():
            parameter.requires_grad = mode


def thaws_in_train() -> None:
    """After the first evaluation, `train` makes all layers trainable."""
    model = Thawing()

    def evaluate(step: int) -> None:
        if step == 5:
            model.eval()
            with torch.no_grad():
                model(points()[0])
            model.train()

    learn(batches(points, STEPS), model, after=evaluate)
