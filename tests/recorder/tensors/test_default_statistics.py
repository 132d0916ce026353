"""What is recorded without being asked for, and that gradients are the true ones."""

from __future__ import annotations

import pytest
import torch
from tests.recorder.tensors.reading import near
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 8)
        self.blk = nn.Linear(8, 6)

    def forward(self, x):
        return self.blk(self.fc1(x).relu())


def train(model, steps, optimizer, after):
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 20)).square().mean().backward()
        after(step)
        optimizer.step()


def test_gradients_are_true_under_a_scaler_and_before_clipping(watch):
    training = watch("gradients@1")
    model = nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(4):
        optimizer.zero_grad()
        loss = model(torch.full((1, 4), 3.0)).sum()
        scaler.scale(loss * float("inf") if step == 2 else loss).backward()
        if step != 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_((p for p in model.parameters()), 1.0)
        scaler.step(optimizer)
        scaler.update()
    found = training.end()
    for step in (0, 1, 3):
        assert found.row("gradient/weight", step)["max"] == 3.0
        assert found.row("gradient/weight", step).state == ""
    skipped = found.row("gradient/weight", 2)
    assert skipped["posinf"] + skipped["neginf"] + skipped["nan"] == 4
    # Without being asked for, at the first step and the third: how often after that depends on the cost.
    assert training.scalars("grad_norm")[0] == 6.0
    assert training.scalars("grad_norm_clipped") == {}
    assert training.scalars("loss_scale")[0] == 1024.0
    assert training.scalars("nonfinite_gradients")[2] == 1.0
    (first,) = training.facts("nonfinite")
    assert (first["step"], first["name"], first["parameter"]) == (2, "loss", "weight")


def test_gradients_are_true_before_they_are_clipped_with_a_known_norm(watch):
    training = watch()
    model = Net()
    norms = []

    def clip(step):
        norms.append(nn.utils.get_total_norm([one.grad for one in model.parameters()]))
        nn.utils.clip_grads_with_norm_(model.parameters(), 0.05, norms[-1])

    train(model, 3, torch.optim.SGD(model.parameters(), lr=0.1), clip)
    training.end()
    told = training.scalars("grad_norm")
    assert {0, 2} <= set(told)
    assert all(near(value, float(norms[step]), 1e-5) for step, value in told.items())
    assert set(training.scalars("grad_norm_clipped").values()) == {0.05}


def test_limits_of_gradients_may_be_given_by_name(watch):
    training = watch()
    model = nn.Linear(20, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def clip(step):
        if step % 2:
            nn.utils.clip_grad_value_(parameters=(p for p in model.parameters()), clip_value=0.5)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.05, norm_type=2.0)
        assert float(model.weight.grad.abs().max()) <= (0.5 if step % 2 else 0.05)

    train(model, 6, optimizer, clip)
    for wrong in (nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_):
        with pytest.raises(TypeError, match=r"missing 1 .* argument: '(max_norm|clip_value)'"):
            wrong(model.parameters())
    training.end()
    assert set(training.scalars("grad_norm_clipped").values()) == {0.05}


def test_the_diet_without_being_asked(watch):
    training = watch()
    model = Net()
    optimizer = torch.optim.SGD(
        [{"params": model.fc1.parameters(), "name": "first"}, {"params": model.blk.parameters()}], lr=0.1
    )
    norms = []

    def clip(step):
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.05)))

    before = model.fc1.weight.detach().clone(), model.fc1.bias.detach().clone()
    train(model, 1, optimizer, clip)
    after = model.fc1.weight.detach().clone(), model.fc1.bias.detach().clone()
    train(model, 5, optimizer, clip)
    found = training.end()
    assert not found.rows
    told = training.scalars("grad_norm")
    assert {0, 2, 5} <= set(told)
    assert all(near(value, norms[step], 1e-5) for step, value in told.items())
    assert set(training.scalars("grad_norm_clipped").values()) == {0.05}
    assert not training.scalars("nonfinite_gradients")
    ratios = training.scalars("update_ratio/first")
    moved = torch.cat([(b - a).reshape(-1) for a, b in zip(before, after, strict=True)]).norm()
    assert near(ratios[0], float(moved / torch.cat([a.reshape(-1) for a in before]).norm()), 1e-4)
    assert set(training.scalars("update_ratio/group1")) == set(ratios)
