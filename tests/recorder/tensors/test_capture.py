"""What is saved of a training: names, values, and the moments at which they are true."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from tests.recorder.tensors.reading import near, raw
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 8)
        self.relu1 = nn.ReLU()
        self.blk = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6))
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.blk(self.act(self.relu1(self.fc1(x)))))


def train(model, steps, *, optimizer=None, classes=6, after=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        optimizer.zero_grad()
        loss = criterion(model(torch.randn(5, 20)), torch.randint(0, classes, (5,)))
        loss.backward()
        if after is not None:
            after(step)
        optimizer.step()


def test_names_and_steps_of_everything(watch):
    training = watch("all@2:shape", "weights@3", "/^act_/@4")
    model = Net()
    train(model, 5)
    found = training.end()
    inputs = {
        "Net": (5, 20),
        "fc1": (5, 20),
        "relu1": (5, 8),
        "blk": (5, 8),
        "blk.0": (5, 8),
        "blk.1": (5, 6),
    }
    expected = {f"{name}_input_0" for name in inputs} | {f"{name}_output_0" for name in inputs}
    expected |= {"act_input_0", "act_input_1", "act_output_0", "act_output_1"}
    expected |= {name for name, _ in model.named_parameters()}
    expected |= {f"gradient/{name}" for name, _ in model.named_parameters()}
    expected |= {f"blk.1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    expected |= {f"CrossEntropyLoss_{each}" for each in ("input_0", "input_1", "output_0")} | {"loss"}
    assert found.names(2) == expected
    assert found.names(3) == {"fc1.weight", "blk.0.weight", "blk.1.weight"}
    assert found.steps("fc1.bias") == [0, 2, 4]
    assert found.values[2, "act_output_1", "shape"] == [5, 6]
    assert found.values[2, "CrossEntropyLoss_output_0", "shape"] == []
    assert found.row("act_output_1", 4).collections == ["all", "/^act_/@4"]
    roles = {row.name: row.role for row in found.rows}
    assert roles["relu1_output_0"] == "act_out:relu"
    assert roles["Net_input_0"] == "model_input:0"
    assert roles["Net_output_0"] == "logits"
    assert roles["blk.1.weight"] == "norm_param"
    assert (roles["fc1.bias"], roles["gradient/fc1.bias"]) == ("bias", "grad")
    assert roles["CrossEntropyLoss_input_1"] == "labels"
    assert len(found.values[2, "CrossEntropyLoss_input_1", "value"]) == 5


def test_values_are_those_of_the_training(watch):
    training = watch("weights@1:raw,each", "gradients@1:raw")
    model = Net()
    seen = {}

    def note(step):
        for name, parameter in model.named_parameters():
            seen[step, f"gradient/{name}"] = parameter.grad.clone()
            seen[step, name] = parameter.detach().clone()

    train(model, 3, after=note)
    found = training.end()
    for step in range(3):
        metadata, tensors = raw(next(training.spool.glob(f"*.{step:09d}-train.safetensors")))
        assert (metadata["step"], metadata["mode"]) == (str(step), "train")
        assert len(tensors) == 9
        for name, (dtype, shape, data) in tensors.items():
            assert (dtype, shape) == ("F32", list(seen[step, name].shape))
            assert data == seen[step, name].numpy().tobytes()
            row = found.row(name, step)
            assert near(row["abs_mean"], float(seen[step, name].double().abs().mean()))
    change = seen[2, "fc1.weight"] - seen[1, "fc1.weight"]
    row = found.row("fc1.weight", 2)
    assert near(row["delta_l2"], float(change.double().norm()))
    assert near(row["delta_max"], float(change.abs().max()))
    assert row["fingerprint"] != found.row("fc1.weight", 1)["fingerprint"] != 0


def test_accumulation_is_one_step_and_recomputation_is_recorded_once(watch):
    training = watch("gradients@1", "/^body/@1")

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(20, 8), nn.ReLU())
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            return self.head(checkpoint(self.body, x, use_reentrant=False))

    model = Checkpointed()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        for _ in range(3):
            model(torch.randn(5, 20)).square().mean().backward()
        total = model.head.bias.grad.clone()
        optimizer.step()
    found = training.end()
    assert found.steps("gradient/head.bias") == [0, 1]
    assert near(found.row("gradient/head.bias", 1)["max"], float(total.max()))
    outputs = {name for name in found.names(1) if name.startswith("body_output")}
    assert outputs == {"body_output_0", "body_output_1", "body_output_2"}  # one for each micro-batch


def test_parameters_of_every_kind(watch):
    training = watch("weights@1", "gradients@1", "biases@1", "optimizer_state@1")

    class Kinds(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 4, sparse=True)
            self.encode = nn.Linear(4, 4)
            self.tied = nn.Linear(4, 4)
            self.tied.weight = self.encode.weight
            self.frozen = nn.Linear(4, 4)
            self.frozen.requires_grad_(False)
            self.unused = nn.Linear(4, 4)

        def forward(self, ids):
            return self.frozen(self.tied(self.encode(self.words(ids))))

    model = Kinds()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.tensor([[1, 2, 2]])).sum().backward()
        dense = model.words.weight.grad.to_dense()
        optimizer.step()
    found = training.end()
    assert "tied.weight" not in found.names()
    assert "gradient/tied.bias" in found.names()
    assert found.row("frozen.weight", 1).state == "frozen"
    assert found.row("gradient/frozen.weight", 1).state == "frozen"
    unused = found.row("gradient/unused.weight", 1)
    assert (unused.state, unused["count"]) == ("unused", 0)
    sparse = found.row("gradient/words.weight", 1)
    assert (sparse["count"], sparse["zeros"]) == (200, int((dense == 0).sum()))
    assert near(sparse["mean"], float(dense.double().mean()), 1e-5)
    assert near(sparse["std"], float(dense.double().std(correction=0)), 1e-5)
    assert found.row("encode.weight/momentum_buffer", 1).role == "opt_state"
    assert found.row("words.weight", 1).role == "embedding"


@dataclasses.dataclass
class Answer:
    """What a model may return."""

    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mappings_keywords_and_evaluation(watch, dtype):
    training = watch("layers@1:values", "outputs:eval=2")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, mask=None):
            found = self.inner(x, mask=mask)
            return Answer(found["logits"], (found["hidden"], x))

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x, mask):
            hidden = self.fc(x)
            return {"logits": hidden.float(), "hidden": hidden}

    model = Model().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, mask = torch.ones(3, 4, dtype=dtype), torch.tensor([True, False, True])
    for _ in range(2):
        optimizer.zero_grad()
        model(x, mask=mask).logits.sum().backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            for _ in range(4):
                model(x, mask)
        model.train()
    found = training.end()
    names = {row.name for row in found.rows if (row.step, row.mode) == (0, 1)}
    assert {"inner_input_mask", "inner_output_logits", "inner_output_hidden", "Model_output_logits"} <= names
    assert {"Model_output_hidden", "Model_output_hidden_1", "Model_input_mask"} <= names
    assert found.values[0, "inner_input_mask", "value"] == [1, 0, 1]
    evaluated = [row for row in found.rows if row.mode == 2 and row.name == "Model_output_logits"]
    assert [row.step for row in evaluated] == [1, 2]  # once in each evaluation
    assert not [row for row in found.rows if row.mode == 2 and row.name.startswith("gradient")]


def test_steps_that_are_not_due_are_left_alone(watch):
    training = watch("all@100")
    model, hooks = Net(), nn.modules.module
    seen = []

    def look(step):
        seen.append((len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)))

    train(model, 12, after=look)
    assert seen[0][0] >= 1
    assert seen[8:] == [(0, 0)] * 4
    found = training.end()
    assert {row.step for row in found.rows} == {0}
    assert not hooks._global_forward_hooks
    assert not model._forward_hooks


def test_a_regex_that_matches_nothing_is_said_once(watch, capsys):
    training = watch("/fc9[.]weight/@1")
    train(Net(), 4)
    training.end()
    said = [line for line in capsys.readouterr().err.splitlines() if "regular expression" in line]
    assert len(said) == 1
    assert "fc1.weight" in said[0]


def test_a_model_that_is_made_inside_the_loop(watch):
    training = watch("weights@1")
    for _ in range(3):
        train(Net(), 1)
    found = training.end()
    assert found.steps("fc1.weight") == [0, 1, 2]


def test_batches_have_fingerprints_that_tell_them_apart(watch):
    training = watch("inputs@1")
    model, kept = Net(), torch.randn(5, 20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in (kept, torch.randn(5, 20), kept.clone()):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    found = training.end()
    first, second, third = (found.row("Net_input_0", step)["fingerprint"] for step in range(3))
    assert first == third != second
    assert 0 not in (first, second)


def test_a_parameter_keeps_its_name_while_other_models_come_and_go(watch):
    training = watch("weights@1")
    model, teacher = nn.Sequential(nn.Linear(20, 6)), nn.Sequential(nn.Linear(20, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(5, 20)
        with torch.no_grad():
            wanted = teacher(x)
        optimizer.zero_grad()
        (model(x) - wanted).square().mean().backward()
        optimizer.step()
        teacher = copy.deepcopy(model).requires_grad_(False)
    found = training.end()
    assert [found.names(step) for step in range(3)] == [{"0.weight", "Sequential.0.weight"}] * 3
    states = {name: [found.row(name, step).state for step in range(3)] for name in found.names()}
    assert states == {"0.weight": ["", "frozen", "frozen"], "Sequential.0.weight": ["", "", ""]}
