"""What is kept only where it is asked for, and losses that only an evaluation computes."""

from __future__ import annotations

import torch
from tests.recorder.tensors.test_capture import Net, train
from torch import nn


def test_reductions_on_request(watch):
    training = watch("weights@1:abs_min,prod", "gradients@1")
    model = nn.Sequential(nn.Linear(20, 1))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[0].weight[0, :4] = torch.tensor([-2.0, 0.5, 12.0, float("nan")])
    train(model, 1, classes=1)
    found = training.end()
    assert found.values[0, "0.weight", "abs_min"] == [0.5]
    assert found.values[0, "0.weight", "prod"] == [-12.0]
    assert {kind for *_, kind in found.values} == {"abs_min", "prod"}


def test_losses_that_functions_compute_while_a_model_evaluates(watch):
    training = watch("losses:train=1,eval=2")
    model, x, y = Net(), torch.randn(5, 20), torch.randn(5, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    told = []
    for _ in range(2):
        model.train()
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            told += [nn.functional.mse_loss(model(x), y).item() for _ in range(3)]
    found = training.end()
    rows = [row for row in found.rows if row.name == "loss"]
    assert [(row.mode, row.step) for row in rows] == [(1, 0), (2, 1), (1, 1), (2, 2)]
    assert [row["mean"] for row in rows if row.mode == 2] == [told[0], told[4]]  # passes 0 and 4
