"""Cases that the SageMaker Debugger's own tests fix for capturing, and those that it gets wrong."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch
from tests.recorder.tensors.reading import near
from torch import nn

from holter.recorder.tensors.collections import Collection
from holter.recorder.tensors.requests import from_environment, requests, to_environment
from holter.recorder.tensors.schedule import Schedule

EVAL = 2
TESTS = Path(__file__).parents[2]
CAPTURE, OWN, JOBS = (
    "recorder/tensors/test_capture.py",
    "recorder/tensors/test_by_hand.py",
    "jobs/test_tensors.py",
)
HERE = "recorder/tensors/test_conformance.py"
DEFECTS = {  # number of the defect: tests that it is not ours
    "D01 a finished job's place is taken": [("cli/test_run_refusals.py", "test_job_name_that_is_taken")],
    "D02 scalars late, thinned, in the wrong mode": [(OWN, "test_modes_and_threads")],
    "D03 tensors of scripts lost": [
        (OWN, "test_every_tensor_is_kept_at_its_step_whatever_else_is_due"),
        (OWN, "test_a_schedule_that_describes_it_counts"),
    ],
    "D04 micro-batches are steps": [
        (CAPTURE, "test_accumulation_is_one_step_and_recomputation_is_recorded_once")
    ],
    "D05 gradients in evaluation": [(HERE, "test_nothing_of_the_update_is_saved_in_evaluation")],
    "D06 mappings and keywords lost": [(CAPTURE, "test_mappings_keywords_and_evaluation")],
    "D08 sharded models": [(JOBS, "test_shards_of_a_model_join_to_the_whole")],
    "D09 compiled models": [(JOBS, "test_compiled_models_keep_their_names")],
    "D10 several models, recomputation": [
        (HERE, "test_two_models_that_train_each_other_share_the_steps"),
        (CAPTURE, "test_accumulation_is_one_step_and_recomputation_is_recorded_once"),
    ],
    "D11 gradients scaled, clipped, local": [
        ("recorder/tensors/test_diet.py", "test_gradients_are_true_under_a_scaler_and_before_clipping"),
        (JOBS, "test_gradients_of_ranks_in_parallel_are_reduced"),
    ],
    "D14 words of the JSON configuration": [(JOBS, "test_a_configuration_of_sagemakers_hook")],
    "D15 the end told by any rank": [
        ("agent/test_tensors.py", "test_rows_values_and_whole_tensors_arrive"),
        ("tensors/test_completeness.py", "test_states_of_steps"),
    ],
    "D17 an end at step 0": [("recorder/tensors/test_requests.py", "test_nothing_is_never_due")],
    "D18 a module's name matches others'": [(HERE, "test_a_module_is_chosen_without_those_of_like_names")],
    "D34 steps that are not due cost": [
        (CAPTURE, "test_steps_that_are_not_due_are_left_alone"),
        ("recorder/tensors/test_device.py", "test_nothing_waits_and_the_numbers_are_those_of_the_host"),
    ],
    "D35 buffers": [(HERE, "test_buffers_are_tensors_too")],
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_has_its_test(defect):
    for path, name in DEFECTS[defect]:
        tree = ast.parse((TESTS / path).read_text())
        assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, (path, name)


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
