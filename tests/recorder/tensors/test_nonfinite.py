"""The first module and parameter that gave a number that is not finite are named."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

INF = float("inf")


class Entropy(nn.Module):
    """Takes a logarithm, of 0 once `at` calls have passed."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, x):
        self.calls += 1
        x = torch.softmax(x, -1)
        return (x * float(self.calls <= self.at)).log()


class Block(nn.Module):
    def __init__(self, width: int, at: int | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.entropy = nn.Identity() if at is None else Entropy(at)

    def forward(self, x):
        y = self.norm(x)
        # The last word is padding: its mask holds minus infinity in every step, which is no news.
        padding = (torch.arange(x.shape[1]) == x.shape[1] - 1).expand(x.shape[:2])
        x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        return x + 1e-3 * self.entropy(self.feed(x))


class Transformer(nn.Module):
    def __init__(self, *at: int | None) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList(Block(8, each) for each in at)
        self.head = nn.Linear(8, 11)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(model, steps, spoil=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        ids = torch.randint(0, 11, (4, 6))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        if spoil is not None:
            loss = spoil(step, loss, model)
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("where", [0, 1])
def test_a_logarithm_of_zero_in_one_module_of_a_transformer(watch, where, capsys):
    training = watch()
    train(Transformer(*(4 if at == where else None for at in range(3))), 8)
    training.end()
    first, *rest = training.facts("nonfinite")
    assert (first["step"], first["direction"]) == (4, "forward")
    assert first["module"] == first["name"] == f"blocks.{where}.entropy"
    assert first["operation"] == "LogBackward0"
    assert first["parameter"].startswith(f"blocks.{where}.feed.2")
    assert (first["input"]["zeros"], first["input"]["count"]) == (4 * 6 * 8, 4 * 6 * 8)
    assert first["last_healthy"]["step"] == 3
    assert math.isfinite(first["last_healthy"]["loss"])
    assert all(fact["direction"] == "backward" for fact in rest)  # what the update spread is no news
    assert f"first in blocks.{where}.entropy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spoiled", "operation"),
    [(lambda loss: (loss - loss.detach()).log(), "LogBackward0"), (lambda loss: loss * INF, "MulBackward0")],
)
def test_a_loss_that_is_not_finite_by_itself(watch, spoiled, operation):
    training = watch()
    train(Transformer(None), 6, lambda step, loss, model: spoiled(loss) if step == 4 else loss)
    training.end()
    first = training.facts("nonfinite")[0]
    assert (first["name"], first["module"], first["operation"]) == ("loss", "", operation)


def test_a_gradient_that_is_not_finite(watch):
    training = watch()

    def spoil(step, loss, model):
        return loss + (model.blocks[0].feed[0].bias * 0).abs().sqrt().sum() if step == 2 else loss

    train(Transformer(None, None), 3, spoil)
    training.end()
    (first,) = training.facts("nonfinite")
    assert (first["step"], first["direction"]) == (2, "backward")
    assert first["parameter"] == "blocks.0.feed.0.bias"
    assert first["module"] == "blocks.0.feed.0"
    assert first["parameters"] == 1
    assert training.scalars("nonfinite_gradients") == {2: 1.0}
