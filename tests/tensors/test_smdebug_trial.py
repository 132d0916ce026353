"""smdebug's trial over a job of ours: the reference's tests of reading, and what it did wrong."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save as safetensors
from tests.tensors.writing import Recording

from holter.compat import smdebug as smd
from holter.compat.smdebug import exceptions
from holter.compat.smdebug.core.modes import modes
from holter.compat.smdebug.trials.trial import Trial

AVAIL, NOT_YET = smd.StepState.AVAILABLE, smd.StepState.NOT_YET_AVAILABLE


def steps_of(recording: Recording, steps: range, count: int = 10, prefix: str = "foo") -> None:
    """Save `count` tensors full of the step's number at each step; quickly, as raw files only."""
    for step in steps:
        tensors = {f"{prefix}_{n}": np.full((3, 3, 3), float(step)) for n in range(count)}
        recording.put(step, safetensors(tensors))


def check(trial: Trial, steps: int, tensors: int) -> None:
    assert len(trial.steps()) == steps
    assert len(trial.tensor_names()) == tensors
    for name in trial.tensor_names():
        tensor = trial.tensor(name)
        assert all(np.all(tensor.value(step) == step) for step in tensor.steps())


def trial_of(recording: Recording, **more) -> Trial:
    return smd.create_trial(recording.folder.url, **more)


def test_local(tmp_path):
    recording = Recording(tmp_path)
    steps_of(recording, range(20))
    check(trial_of(recording), 20, 10)
    assert trial_of(recording).tensor("foo_3").value(7).shape == (3, 3, 3)
    trial = smd.create_trial(f"  {recording.folder.url} ", name="x")
    assert trial == smd.create_trial(recording.folder.url, "x") != trial_of(recording)
    assert len({trial, smd.create_trial(recording.folder.url, "x")}) == 1


def test_a_range_of_steps(tmp_path):
    recording = Recording(tmp_path)
    steps_of(recording, range(8))
    trial = trial_of(recording, range_steps=(0, 5))
    check(trial, 5, 10)
    steps_of(recording, range(8, 16))
    check(trial, 5, 10)
    for bad in ((5, 5), (-1, 3), (3, 1), ("a", None)):
        with pytest.raises(AssertionError, match="range_steps"):
            trial_of(recording, range_steps=bad)


def test_refresh(tmp_path):
    recording = Recording(tmp_path)
    steps_of(recording, range(8))
    trial = trial_of(recording)
    check(trial, 8, 10)
    steps_of(recording, range(8, 16))
    check(trial, 16, 10)
    steps_of(recording, range(16, 17))
    assert len(trial.steps()) == 17
    assert not trial.has_tensor("foo_12")
    steps_of(recording, range(17, 18), 13)
    assert trial.has_tensor("foo_12")
    assert trial.tensor("foo_11").steps() == [17]


@pytest.mark.parametrize("many", [True, False])
def test_no_refresh(tmp_path, many):
    recording = Recording(tmp_path)
    steps_of(recording, range(8), 2)
    trial = trial_of(recording)
    with smd.no_refresh([trial] if many else trial) as same:
        assert (same == [trial]) if many else (same is trial)
        steps_of(recording, range(8, 10), 3)
        check(trial, 8, 2)
        with smd.refresh(trial):
            assert len(trial.steps()) == 10
        assert not trial.dynamic_refresh
    check(trial, 10, 3)


def test_names_by_regex_and_collection(tmp_path):
    recording = Recording(tmp_path)
    recording.tell(test={"include_regex": ["foo"], "tensors": ["boo_5", "boo_6", "boo_17"]})
    steps_of(recording, range(3))
    steps_of(recording, range(3, 5), prefix="boo")
    trial = trial_of(recording)
    assert len(trial.tensor_names()) == 20
    assert len(trial.tensor_names(regex="foo")) == len(trial.tensor_names(regex=[["foo_1"], "foo"])) == 10
    assert len(trial.tensor_names(collection="test")) == 12
    assert len(trial.tensor_names(collection=trial.collection("test"))) == 12
    assert trial.tensor_names(step=4, regex="_1$") == ["boo_1"]
    with pytest.raises(ValueError, match="not both"):
        trial.tensor_names(regex="foo", collection="test")
    with pytest.raises(TypeError, match="int"):
        trial.tensor_names(collection=3)
    assert "boo_17" in trial.collection("test").tensor_names
    assert repr(trial).startswith("Trial(name='job'")


def test_an_unknown_collection_is_not_made(tmp_path):
    # D24: the reference makes an empty one.
    recording = Recording(tmp_path)
    recording.tell(losses={"include_regex": ["loss"]})
    trial = trial_of(recording)
    with pytest.raises(ValueError, match="did you mean 'losses'"):
        trial.collection("loss")
    assert list(trial.collections()) == ["losses"]


def test_what_was_never_seen_is_no_key_error(tmp_path):
    # D24: the reference raised a bare KeyError.
    recording = Recording(tmp_path)
    recording.save(0, {"w": 1.0}, own=0)
    trial = trial_of(recording)
    with pytest.warns(UserWarning, match="no tensor"):
        assert trial.tensor_names(mode=modes.EVAL) == []
    with pytest.warns(UserWarning, match="no tensor"):
        assert trial.tensor_names(step=99, mode=modes.TRAIN) == []
    assert trial.steps(mode=modes.EVAL) == []


def test_modes_while_the_job_grows(tmp_path):
    recording = Recording(tmp_path)
    trial = trial_of(recording)
    assert trial.steps() == []
    assert trial.last_complete_step == -1
    for step in range(10):
        mode = modes.TRAIN if step % 2 == 0 else modes.EVAL
        own = step // 2
        assert trial.has_passed_step(own, mode) is NOT_YET
        recording.save(step, {"arr": float(step)}, mode=mode.label, own=own, raw=True)
        assert trial.has_passed_step(own, mode) is trial.has_passed_step(step) is AVAIL
        assert trial.has_passed_step(own + 1, mode) is trial.has_passed_step(step + 1) is NOT_YET
    assert trial.steps() == list(range(10))
    assert trial.steps(modes.TRAIN) == trial.steps(modes.EVAL) == list(range(5))
    assert set(trial.modes()) == {modes.TRAIN, modes.EVAL}
    tensor = trial.tensor("arr")
    for step in range(10):
        mode = modes.TRAIN if step % 2 == 0 else modes.EVAL
        assert trial.mode(step) is mode
        assert trial.mode_step(step) == step // 2
        assert trial.mode_modestep(step) == (mode, step // 2)
        assert trial.global_step(mode, step // 2) == step
        assert tensor.value(step) == tensor.value(step // 2, mode) == step
        assert tensor.reduction_value(step // 2, "mean", mode) == step
    assert (trial.mode(99), trial.mode_modestep(99)) == (None, (None, None))
    assert trial.global_step(modes.GLOBAL, 99) == 99
    assert trial.tensor_names(step=3, mode=modes.EVAL) == ["arr"]


def test_steps_of_a_tensor_in_several_modes_and_of_several_workers(tmp_path):
    # D26: the reference compared lists with numbers, and steps of a mode with global ones.
    recording = Recording(tmp_path, ranks=(0, 1))
    for step, (mode, own, ranks) in enumerate(
        [("train", 0, (0, 1)), ("eval", 0, (0, 1)), ("eval", 1, (0, 1)), ("train", 1, (0,))]
    ):
        for rank in ranks:
            recording.save(step, {"w": 1.0}, mode=mode, rank=rank, own=own if rank == 0 else None)
    tensor = trial_of(recording).tensor("w")
    assert tensor.steps() == [0, 1, 2]
    assert tensor.steps(modes.TRAIN) == [0]
    assert tensor.steps(modes.TRAIN, show_incomplete_steps=True) == [0, 1]
    assert tensor.steps(modes.EVAL) == [0, 1]
    assert tensor.workers(0) == ["worker_0", "worker_1"]
    assert tensor.workers(1, modes.TRAIN) == ["worker_0"]
    with pytest.raises(exceptions.TensorUnavailableForStep):
        tensor.workers(9)
    with pytest.raises(exceptions.InvalidWorker):
        tensor.reduction_value(1, "mean", modes.TRAIN, worker="worker_1")
    with pytest.raises(exceptions.InvalidWorker):
        tensor.value(0, worker="nobody")
    recording.end()
    assert tensor.steps() == [0, 1, 2, 3]
    with pytest.raises(exceptions.NoMoreData) as end:
        tensor.trial.wait_for_steps([7], modes.TRAIN)
    assert (end.value.step, end.value.last_step) == (7, 1)
    assert tensor.trial.num_workers == 2


def test_reductions_shapes_and_values(tmp_path):
    recording = Recording(tmp_path)
    array = np.array([[0.0, -1, 2], [3, 4, 5]])
    recording.save(0, {"w": array})
    recording.save(1, {"w": array}, raw=True)
    tensor = trial_of(recording).tensor("w")
    # D21: shape and value saved together are both there. D27: shapes exists.
    assert tensor.shape(1) == (2, 3)
    assert np.array_equal(tensor.value(1), array)
    assert tensor.shapes() == {1: (2, 3)}
    assert list(tensor.values()) == [1]
    with pytest.raises(exceptions.ShapeUnavailableForStep):
        tensor.shape(0)
    with pytest.raises(exceptions.TensorUnavailableForStep) as missing:
        tensor.value(0)
    assert missing.value.has_reductions
    saved = tensor.reduction_values(0)
    assert saved[("l1", False)] == saved[("l1", True)] == 15
    assert saved[("min", True)] == 0
    for name, absolute in saved:
        assert tensor.reduction_value(1, name, abs=absolute) == pytest.approx(saved[(name, absolute)])
    assert tensor.prev_steps(5, 1) == [1]
    with pytest.raises(ValueError, match="only one of"):
        tensor.reduction_value(0, "middle")
    with pytest.raises(NotImplementedError):
        tensor.step(0)


def test_inputs_and_labels_of_a_mode(tmp_path):
    # D28: the reference fetched them by the global step, whatever the mode.
    recording = Recording(tmp_path)
    for step, (mode, own) in enumerate([("train", 0), ("eval", 0), ("eval", 1)]):
        tensors = {f"inputs_{n}": [10.0 * step + n] for n in (0, 1, 10, 2)} | {"labels": [float(step)]}
        recording.save(step, tensors, mode=mode, own=own, values=True)
    trial = trial_of(recording)
    assert [float(x[0]) for x in trial.inputs(1, modes.EVAL)] == [20, 21, 22, 30]
    assert [float(x[0]) for x in trial.labels(0, modes.EVAL)] == [1]
    assert trial.predictions(0, modes.EVAL) == []


def test_a_wrong_path_is_answered_at_once(tmp_path):
    # D23: the reference waited for ever.
    with pytest.raises(exceptions.TrialNotFound, match="no job 'nothing'"):
        smd.create_trial(str(tmp_path / "nothing"))
    with pytest.raises(exceptions.SMDebugError):
        smd.create_trial(str(tmp_path / "nothing"), profiler=True)


def test_blanks_around_a_path(tmp_path):
    recording = Recording(tmp_path)
    steps_of(recording, range(2), 1)
    recording.open()
    assert smd.create_trial(f"  {recording.folder.url} ").steps() == [0, 1]


def test_a_file_that_is_listed_and_gone(tmp_path):
    # The reference's index without its events: never a wait without end.
    recording = Recording(tmp_path)
    steps_of(recording, range(3), 1)
    trial = trial_of(recording)
    assert trial.tensor("foo_0").steps() == [0, 1, 2]
    recording.folder.place.delete("tensors-raw/node=n0/rank=0/000000001-train.safetensors")
    with pytest.raises(exceptions.SMDebugError, match="000000001-train"):
        trial.tensor("foo_0").value(1)
    assert trial.tensor("foo_0").value(2)[0, 0, 0] == 2


def test_names_are_those_of_smdebug():
    assert [mode.name for mode in modes] == ["TRAIN", "EVAL", "PREDICT", "GLOBAL"]
    assert [mode.value for mode in modes] == [1, 2, 3, 4]
    assert {state.name: state.value for state in smd.StepState} == {
        "UNAVAILABLE": 0,
        "AVAILABLE": 1,
        "NOT_YET_AVAILABLE": 2,
    }
    for name in exceptions.__all__:
        assert issubclass(getattr(exceptions, name), exceptions.SMDebugError)
    assert exceptions.NoMoreData(7, None, 6).last_step == 6
