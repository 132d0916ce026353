"""Small trainings that run without an error message and do not learn correctly."""

from __future__ import annotations

import torch
from tests.zoo.material import batches, classifier, learn, points
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

STEPS = 24


class Regular(nn.Module):
    """A perceptron with batch norm and dropout; `ignores_mode`: dropout is active in evaluations too."""

    def __init__(self, *, ignores_mode: bool = False) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 64), nn.BatchNorm1d(64), nn.Linear(64, 4)
        self.ignores_mode = ignores_mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.norm(self.first(x)))
        return self.last(functional.dropout(hidden, 0.1, training=self.training or self.ignores_mode))


class Augmented(Dataset):
    """Samples of noise from a generator that each worker copies; `own`: every sample has a seed."""

    def __init__(self, *, own: bool) -> None:
        self.generator, self.own = torch.Generator().manual_seed(1), own

    def __len__(self) -> int:
        return 200

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(i) if self.own else self.generator
        return torch.randn(16, generator=generator), i % 4


def keeps_gradients() -> None:
    """Nothing clears the gradients."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches(points, STEPS):
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def freezes_all_but_norms() -> None:
    """Everything but batch norm is frozen, the head too."""
    model = Regular()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("norm")
    learn(batches(points, STEPS), model)


def steps_without_change() -> None:
    """A callback loads the first weights again after each step."""
    model = classifier(16, 64)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    learn(batches(points, STEPS), model, after=lambda step: model.load_state_dict(kept) and None)


def optimizes_another_model() -> None:
    """The model is made a second time after the optimizer."""
    model = classifier(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model = classifier(16, 64)
    for x, y in batches(points, STEPS):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


class Cut(nn.Module):
    """A perceptron whose graph is cut before the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 64), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(functional.relu(self.first(x)).detach())


def cuts_its_graph() -> None:
    """The first layer never receives a gradient."""
    learn(batches(points, STEPS), Cut())


def _evaluates(model: nn.Module, *, returns: bool) -> None:
    """Evaluate after the steps 3 and 9; `returns`: to training mode."""

    def evaluate(step: int) -> None:
        if step in (3, 9):
            model.eval()
            with torch.no_grad():
                model(points()[0])
            model.train(returns)

    learn(batches(points, STEPS), model, after=evaluate)


def stays_in_eval_mode() -> None:
    """Nothing calls `train` after the first evaluation."""
    _evaluates(Regular(), returns=False)


def returns_to_training() -> None:
    """The healthy twin."""
    _evaluates(Regular(), returns=True)


def drops_in_evaluation() -> None:
    """A function drops elements in evaluations too."""
    _evaluates(Regular(ignores_mode=True), returns=True)


def _augmented(*, own: bool) -> None:
    loader = DataLoader(Augmented(own=own), batch_size=8, num_workers=2)
    learn((x, y) for x, y in loader)


def workers_share_a_stream() -> None:
    """Both workers draw the same numbers."""
    _augmented(own=False)


def workers_have_own_streams() -> None:
    """The healthy twin."""
    _augmented(own=True)


def loss_of_probabilities() -> None:
    """The model ends with a softmax, and the loss computes another."""
    learn(batches(points, STEPS), nn.Sequential(classifier(16, 64), nn.Softmax(1)))


def evaluates_with_gradients() -> None:
    """Evaluates several batches after the steps 3 and 9, without `no_grad`."""
    model = Regular()

    def validate(step: int) -> None:
        if step in (3, 9):
            model.eval()
            for x, y in batches(points, 3):
                functional.cross_entropy(model(x), y).item()
            model.train()

    learn(batches(points, STEPS), model, after=validate)
