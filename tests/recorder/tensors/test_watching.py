"""Saving that a script asks for itself, and what it says when that cannot be read."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import holter


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()


def test_a_script_saves_what_it_asks_for_from_that_step_on(watch):
    training = watch("biases@1")
    model = nn.Linear(4, 2)
    train(model, 3)
    holter.watch(model, save=["gradients", "weights@2"], every=3)
    holter.watch(save="biases@5")  # in place of those at every step
    train(model, 7)
    found = training.end()
    assert found.steps("gradient/weight") == [3, 6, 9]
    assert found.steps("weight") == [4, 6, 8]
    assert found.steps("bias") == [0, 1, 2, 5]
    assert found.row("gradient/weight", 6).collections == ["gradients"]


def test_what_cannot_be_read_is_said_recorded_or_not():
    with pytest.raises(ValueError, match="did you mean 'gradients'"):
        holter.watch(save=["gradiants"])
    holter.watch(save=["gradients"])


def test_a_tensor_on_no_device_is_left_out(watch):
    training = watch("layers@1")
    train(nn.Linear(4, 2), 1)
    nn.Linear(4, 2, device="meta")(torch.empty(3, 4, device="meta"))
    train(nn.Linear(4, 2), 1)
    assert training.end().names() >= {"Linear_output_0"}


def test_the_default_device_of_a_script_is_not_ours(watch):
    training = watch("weights@1:histogram,shape", "gradients@1")
    torch.set_default_device("meta")
    try:
        train_on_cpu = nn.Linear(4, 2, device="cpu")
        optimizer = torch.optim.SGD(train_on_cpu.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            train_on_cpu(torch.ones(5, 4, device="cpu")).sum().backward()
            optimizer.step()
    finally:
        torch.set_default_device(None)
    found = training.end()
    assert found.steps("weight") == [0, 1]
    assert sum(found.values[1, "weight", "histogram"]) == 8
