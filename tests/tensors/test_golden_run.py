"""The golden run of the reference, as far as it concerns reading: steps, modes, names, shapes."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save as safetensors
from tests.tensors.writing import Recording

from holter.compat import smdebug as smd

MODES = smd.modes
PARAMETERS = [
    "Net_fc1.weight",
    "Net_fc1.bias",
    *(f"Net_blk.{n}.{kind}" for n in "01" for kind in ("weight", "bias")),
]
GRADIENTS = [f"gradient/{name}" for name in PARAMETERS]
SHAPES = {
    "CrossEntropyLoss_output_0": (),
    "CrossEntropyLoss_input_0": (5, 6),
    "CrossEntropyLoss_input_1": (5,),
    "Net_input_0": (5, 20),
    "Net_output_0": (5, 6),
    "blk_input_0": (5, 8),
    "blk_output_0": (5, 6),
    "fc1_input_0": (5, 20),
    "fc1_output_0": (5, 8),
    "relu1_input_0": (5, 8),
    "relu1_output_0": (5, 8),
    "blk.0_input_0": (5, 8),
    "blk.0_output_0": (5, 6),
    "blk.1_input_0": (5, 6),
    "blk.1_output_0": (5, 6),
    "act_input_0": (5, 8),
    "act_output_0": (5, 8),
    "act_input_1": (5, 6),
    "act_output_1": (5, 6),
}
COLLECTIONS = {
    "weights": ["^(?!gradient).*weight"],
    "biases": ["^(?!gradient).*bias"],
    "gradients": ["^gradient"],
    "losses": ["[Ll]oss_(?!input).*output"],
    "all": [".*"],
}


@pytest.fixture(scope="module")
def trial(tmp_path_factory) -> smd.Trial:
    """Two epochs of 5 steps of training and 4 of evaluation; every 2nd and every 3rd is saved."""
    recording = Recording(tmp_path_factory.mktemp("store"))
    recording.tell(**{name: {"include_regex": regexes} for name, regexes in COLLECTIONS.items()})
    own = {"train": 0, "eval": 0}
    for step, mode in enumerate((["train"] * 5 + ["eval"] * 4) * 2):
        recording.told.setdefault("mode_steps", {}).setdefault(mode, []).append([own[mode], step])
        if own[mode] % (2 if mode == "train" else 3) == 0:
            shapes = SHAPES | dict.fromkeys(PARAMETERS, (3,))
            shapes |= dict.fromkeys(GRADIENTS, (3,)) if mode == "train" else {}
            arrays = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
            recording.put(step, safetensors(arrays), mode=mode)
        own[mode] += 1
    recording.tell()
    recording.end()
    return smd.create_trial(recording.folder.url)


def test_steps_of_modes(trial):
    assert trial.steps() == [0, 2, 4, 5, 8, 10, 12, 16]
    assert sorted(trial.modes(), key=lambda mode: mode.name) == [MODES.EVAL, MODES.TRAIN]
    assert trial.steps(MODES.TRAIN) == [0, 2, 4, 6, 8]
    assert [trial.global_step(MODES.TRAIN, step) for step in trial.steps(MODES.TRAIN)] == [0, 2, 4, 10, 12]
    assert trial.steps(MODES.EVAL) == [0, 3, 6]
    assert [trial.global_step(MODES.EVAL, step) for step in trial.steps(MODES.EVAL)] == [5, 8, 16]


def test_names_and_collections(trial):
    names = trial.tensor_names()
    assert len(names) == 31
    assert names == sorted(names)
    assert names[0] == "CrossEntropyLoss_input_0"
    assert trial.tensor_names(collection="weights") == sorted(n for n in PARAMETERS if n.endswith("weight"))
    assert trial.tensor_names(collection="biases") == sorted(n for n in PARAMETERS if n.endswith("bias"))
    assert trial.tensor_names(collection="gradients") == sorted(GRADIENTS)
    assert trial.tensor_names(collection="losses") == ["CrossEntropyLoss_output_0"]
    assert trial.tensor_names(collection="all") == names
    assert not set(trial.tensor_names(mode=MODES.EVAL)) & set(GRADIENTS)
    assert trial.tensor_names(step=3, mode=MODES.EVAL) == trial.tensor_names(step=8)


def test_steps_and_shapes_of_tensors(trial):
    for name in trial.tensor_names():
        tensor = trial.tensor(name)
        assert tensor.steps() == ([0, 2, 4, 10, 12] if name in GRADIENTS else trial.steps())
        if name in SHAPES:
            assert set(tensor.shapes().values()) == {SHAPES[name]}


def test_a_step_that_the_schedule_skipped(trial):
    loss = trial.tensor("CrossEntropyLoss_output_0")
    with pytest.raises(smd.exceptions.StepUnavailable):
        loss.value(1, MODES.TRAIN)
    with pytest.raises(smd.exceptions.StepUnavailable):
        loss.value(99, MODES.EVAL)
    with pytest.raises(smd.exceptions.TensorUnavailableForStep):
        trial.tensor(GRADIENTS[0]).value(3, MODES.EVAL)
