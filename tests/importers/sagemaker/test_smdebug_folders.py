"""Folders of smdebug's tensors: workers of two names, texts, folders that grow, `holter import`."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
from tests.importers.smdebug_writing import collections, end, save

from holter.cli import main
from holter.compat import smdebug as smd

ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_may_be_called_otherwise_in_its_event_files(tmp_path, workers):
    collections(tmp_path, *(f"worker_{n}" for n in range(workers)))
    for step in range(3):
        for worker in range(workers):
            save(tmp_path, step, {"w": ONES * worker}, worker=f"algo-{worker + 1}")
    save(tmp_path, 3, {"w": ONES}, worker="algo-1")
    trial = smd.create_trial(str(tmp_path))
    assert trial.num_workers == workers
    assert trial.steps() == ([0, 1, 2] if workers == 3 else [0, 1, 2, 3])
    assert trial.steps(show_incomplete_steps=True) == [0, 1, 2, 3]
    assert len(trial.tensor("w").workers(0)) == workers
    assert trial.tensor("w").value(0, worker=f"worker_{workers - 1}").max() == workers - 1


def test_a_worker_that_was_only_late_keeps_its_rank(tmp_path):
    collections(tmp_path, "worker_0", "worker_1")
    save(tmp_path, 0, {"w": ONES}, worker="worker_1")
    trial = smd.create_trial(str(tmp_path))
    assert trial.steps() == []
    save(tmp_path, 0, {"w": ONES * 5}, worker="worker_0")
    assert trial.steps() == [0]
    assert trial.tensor("w").value(0, worker="worker_0").max() == 5


def test_texts_are_read(tmp_path):
    collections(tmp_path, "worker_0")
    texts = ["binary:logistic", "", "Grüße 木"]
    save(tmp_path, 0, {"objective": texts[:1], "names": texts, "eta": np.float32(0.5)})
    trial = smd.create_trial(str(tmp_path))
    assert trial.tensor_names() == ["eta", "names", "objective"]
    assert trial.tensor("objective").value(0) == "binary:logistic"
    assert trial.tensor("names").value(0).tolist() == texts
    assert trial.tensor("names").shape(0) == (3,)
    with pytest.raises(smd.exceptions.TensorUnavailableForStep):
        trial.tensor("names").reduction_value(0, "mean")


def test_a_folder_that_grows_is_followed(tmp_path):
    collections(tmp_path, "worker_0")
    trial = smd.create_trial(str(tmp_path))
    assert trial.steps() == []
    save(tmp_path, 0, {"w": ONES})
    assert trial.steps() == [0]
    assert trial.tensor("w").value(0).shape == (2, 3)
    save(tmp_path, 1, {"w": ONES, "v": ONES}, mode="EVAL")
    with smd.no_refresh(trial):
        # What came before the block and was not looked at is not looked at in it either.
        assert trial.steps() == trial.tensor("w").steps() == [0]
    assert trial.tensor("w").steps() == [0, 1]
    assert trial.tensor_names(mode=smd.modes.EVAL) == ["v", "w"]
    assert trial.has_passed_step(2) is smd.StepState.NOT_YET_AVAILABLE
    assert not trial.loaded_all_steps
    end(tmp_path)
    assert trial.has_passed_step(2) is smd.StepState.UNAVAILABLE
    assert trial.loaded_all_steps
    assert trial.last_index_token == f"{tmp_path}/index/000000000/000000000001_worker_0.json"


def test_a_step_whose_event_file_is_gone_was_saved(tmp_path):
    collections(tmp_path, "worker_0")
    for step in range(3):
        save(tmp_path, step, {"w": ONES})
    (tmp_path / "events/000000000001/000000000001_worker_0.tfevents").unlink()
    with pytest.warns(UserWarning, match="000000000001"):
        trial = smd.create_trial(str(tmp_path))
    assert trial.steps() == [0, 1, 2]
    with pytest.raises(smd.exceptions.TensorUnavailableForStep):
        trial.tensor("w").value(1)


def test_a_folder_is_imported(tmp_path, capsys):
    folder = tmp_path / "old/debug-output"
    collections(folder, "worker_0", names=("w",))
    for step in range(4):
        save(folder, step, {"w": ONES * step, "objective": ["binary:logistic"]}, worker="algo-1")
    store = tmp_path / "store"
    assert main(["import", str(tmp_path / "old"), "--job", "old", "--store", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == {str(folder): "smdebug"}
    assert told["ranks"] == {f"{folder}/algo-1": 0}
    assert told["events"] == 8
    assert not told["skipped"]
    assert told["end_ns"] - told["start_ns"] == 3 * 10**9
    trial = smd.create_trial(str(store / "old"))
    assert trial.steps() == [0, 1, 2, 3]
    assert trial.tensor("w").reduction_value(3, "mean") == 3
    assert trial.tensor("objective").value(0) == "binary:logistic"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("trials", "create_trial LocalTrial S3Trial Trial"),
        ("trials.utils", "create_trial"),
        ("trials.trial", "Trial"),
        ("trials.local_trial", "LocalTrial"),
        ("trials.s3_trial", "S3Trial"),
        ("core.modes", "ModeKeys"),
        ("core.tensor", "StepState Tensor"),
        ("analysis.utils", "no_refresh refresh"),
        ("rules", "Rule invoke_rule"),
        ("exceptions", "StepUnavailable NoMoreData"),
        ("profiler", "LocalAlgorithmMetricsReader S3AlgorithmMetricsReader LocalSystemMetricsReader"),
    ],
)
def test_names_stand_at_smdebugs_paths(module, names):
    found = importlib.import_module(f"holter.compat.smdebug.{module}")
    assert not [name for name in names.split() if not hasattr(found, name)]


def test_a_trial_is_of_the_class_that_smdebug_makes(tmp_path):
    collections(tmp_path, "worker_0")
    trial = smd.create_trial(str(tmp_path))
    assert type(trial).__name__ == "LocalTrial"
    assert trial == importlib.import_module("holter.compat.smdebug.trials").LocalTrial(
        tmp_path.name, str(tmp_path)
    )
