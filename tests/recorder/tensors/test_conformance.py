"""Cases that the SageMaker Debugger's own tests fix for capturing, and those that it gets wrong."""

from __future__ import annotations

import json

import pytest
import torch
from tests.recorder.tensors.reading import near
from torch import nn

from holter.recorder.tensors.collections import Collection
from holter.recorder.tensors.requests import from_environment, requests, to_environment
from holter.recorder.tensors.schedule import Schedule

EVAL = 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 12)
        self.fc10 = nn.Linear(12, 6)
        self.norm = nn.BatchNorm1d(6)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.norm(self.relu(self.fc10(self.relu(self.fc1(x))))))


def train(model, steps, *, evaluate=False, same=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(steps):
        x, y = same or (torch.randn(5, 20), torch.randint(0, 6, (5,)))
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if evaluate:
            model.eval()
            with torch.no_grad():
                criterion(model(x), y)
            model.train()
    return losses


@pytest.mark.parametrize(
    "collection",
    [
        Collection("default", ("conv2d",), (), {"train": Schedule(11, start=10, steps=(50,))}, ()),
        Collection("weights"),
        Collection("trial", ("a", "b"), ("act_out",), {"eval": Schedule(3), "train": Schedule(2, end=9)}),
        Collection("mine", roles=("labels",), statistics=("statistics",), kept=frozenset({"raw", "shape"})),
    ],
)
def test_collections_survive_being_written(collection):
    text = json.dumps(collection.to_json())
    assert Collection.from_json(collection.name, json.loads(text)) == collection
    assert from_environment(to_environment([collection])) == [collection]


def test_collections_with_schedules_of_their_own(watch):
    training = watch("gradients@1000:steps=0+1+2+3", "/relu/@1000:steps=4+5+6", "/^fc1_/@1000:steps=7+8+9")
    train(Net(), 12)
    found = training.end()
    assert {row.step for row in found.rows} == set(range(10))
    assert found.steps("gradient/fc1.weight") == [0, 1, 2, 3]
    assert found.steps("relu_output_2") == [0, 4, 5, 6]  # every schedule has step 0
    assert found.steps("fc1_output_0") == [0, 7, 8, 9]


def test_a_loss_module_is_one_tensor_and_falls(watch):
    training = watch("losses@1")
    losses = train(Net(), 5, same=(torch.randn(5, 20), torch.randint(0, 6, (5,))))
    found = training.end()
    assert found.steps("CrossEntropyLoss_output_0") == [0, 1, 2, 3, 4]
    values = [found.row("CrossEntropyLoss_output_0", step)["mean"] for step in range(5)]
    assert all(near(one, other) for one, other in zip(values, losses, strict=True))
    assert values[0] > values[-1]


def test_one_mode_alone(watch):
    training = watch("layers@1:train=1,end=5")
    train(Net(), 10, evaluate=True)
    found = training.end()
    assert {(row.step, row.mode) for row in found.rows} == {(step, 1) for step in range(5)}


def test_shapes_alone(watch):
    training = watch("layers@1:shape,no-statistics,end=1")
    train(Net(), 2)
    found = training.end()
    assert found.rows == []
    assert found.values[0, "fc1_input_0", "shape"] == [5, 20]
    assert found.values[0, "fc10_output_0", "shape"] == [5, 6]


def test_a_module_that_is_called_again_has_names_of_its_own(watch):
    training = watch("layers@1:shape")
    train(Net(), 2)
    found = training.end()
    names = [f"relu_{side}_{number}" for side in ("input", "output") for number in range(3)]
    assert set(names) <= found.names(0)
    assert set(names) <= found.names(1)
    assert [found.values[1, f"relu_output_{n}", "shape"] for n in range(3)] == [[5, 12], [5, 6], [5, 6]]


def test_nothing_of_the_update_is_saved_in_evaluation(watch):
    training = watch("all@1")
    train(Net(), 3, evaluate=True)
    found = training.end()
    evaluated = {row.role for row in found.rows if row.mode == EVAL}
    assert "logits" in evaluated
    assert not evaluated & {"grad", "opt_state"}
    assert found.steps("gradient/fc1.weight") == [0, 1, 2]


def test_two_models_that_train_each_other_share_the_steps(watch):
    training = watch("gradients@1", "losses@1", "layers@1")
    maker, judge = nn.Sequential(nn.Linear(4, 20)), Net()
    first = torch.optim.SGD(maker.parameters(), lr=0.1)
    second = torch.optim.SGD(judge.parameters(), lr=0.1)
    for _ in range(4):
        second.zero_grad()
        judge(maker(torch.randn(5, 4)).detach()).square().mean().backward()
        second.step()
        first.zero_grad()
        judge(maker(torch.randn(5, 4))).mean().backward()
        first.step()
    found = training.end()
    steps = found.steps("gradient/fc1.weight")
    assert steps == found.steps("gradient/0.weight") == sorted(set(steps))
    assert len(steps) == 4
    assert {"fc1_output_0", "fc1_output_1", "loss", "loss_1"} <= found.names(steps[-1])


def test_a_module_is_chosen_without_those_of_like_names(watch):
    training = watch("/^fc1_output/@1", "/^fc1[.]/@1")
    train(Net(), 1)
    assert training.end().names() == {"fc1_output_0", "fc1.weight", "fc1.bias"}


def test_buffers_are_tensors_too(watch):
    training = watch("buffers@2", "weights@1")
    model = Net()
    train(model, 3)
    found = training.end()
    assert found.steps("norm.running_mean") == found.steps("norm.running_var") == [0, 2]
    assert near(found.row("norm.running_var", 2)["mean"], float(model.norm.running_var.double().mean()))
    assert found.row("norm.num_batches_tracked", 2)["max"] == 3
    assert found.row("norm.running_mean", 2).role == "buffer"
    assert found.row("norm.running_mean", 2).collections == ["buffers"]
    assert not requests(["weights@1"])[0].sources & {"buffer"}


def test_names_are_those_of_the_model_that_is_wrapped(watch):
    training = watch("weights@1", "layers@1")
    train(nn.DataParallel(Net()), 3)
    found = training.end()
    assert found.steps("fc1.weight") == [0, 1, 2]
    assert {"fc1_output_0", "fc10_output_0", "Net_output_0"} <= found.names(2)
    assert not [name for name in found.names() if "module" in name.lower()]


@pytest.mark.parametrize(("module", "scaled"), [(False, False), (False, True), (True, False)])
def test_a_functional_loss_has_its_labels(watch, module, scaled):
    training = watch("role=labels@2", "role=logits@2:values", "losses@1")
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion, seen = nn.CrossEntropyLoss(), []
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    for _ in range(4):
        y = torch.randint(0, 6, (5,))
        scores = model(torch.randn(5, 20))
        loss = criterion(scores, y) if module else nn.functional.cross_entropy(scores, y) * 0.5
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append((y.tolist(), scores.detach().log_softmax(1)))
    found = training.end()
    name = "CrossEntropyLoss_input" if module else "nll_loss_input"
    assert found.row(f"{name}_1", 2).role == "labels"
    for step in (0, 2):
        assert found.values[step, f"{name}_1", "value"] == seen[step][0]
        scores = torch.tensor(found.values[step, f"{name}_0", "value"]).view(5, 6).log_softmax(1)
        assert torch.allclose(scores.float(), seen[step][1], atol=1e-5)
    assert found.steps(f"{name}_0") == [0, 2]
    assert {row.role for row in found.rows} == {"labels", "logits", "loss"}
    assert ("nll_loss_input_1" in found.names()) is not module


@pytest.mark.parametrize(
    ("function", "target"),
    [
        ("binary_cross_entropy_with_logits", torch.tensor([0.0, 1, 1, 0, 1])),
        ("mse_loss", torch.randn(5)),
        ("smooth_l1_loss", torch.randn(5)),
    ],
)
def test_losses_of_other_functions(watch, function, target):
    training = watch("role=labels@1")
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = getattr(nn.functional, function)(model(torch.randn(5, 3)).squeeze(1), target)
    (first + 0.1 * model.weight.square().sum()).backward()
    optimizer.step()
    found = training.end()
    assert found.values[0, f"{function}_input_1", "value"] == target.double().tolist()
