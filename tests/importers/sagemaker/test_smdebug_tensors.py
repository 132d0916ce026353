"""What smdebug 1.0.34 itself wrote, read back: the golden run, its numbers, and damaged folders."""

from __future__ import annotations

import contextlib
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holter.compat import smdebug as smd
from holter.importers.sagemaker.event_records import event
from holter.importers.sagemaker.smdebug_tensors import NotSmdebugError, TensorFolder
from holter.schema.varint import BadMessageError
from holter.store import job

DATA = Path(__file__).parents[1] / "data"
TRAIN, EVAL = smd.modes.TRAIN, smd.modes.EVAL


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("smdebug")
    for name in ("golden_raw", "golden_red"):
        zipfile.ZipFile(DATA / f"{name}.zip").extractall(where / name)
    return where


@pytest.fixture
def damaged(unpacked, tmp_path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(unpacked / "golden_red", tmp_path / "run"))


def _job(tmp_path: Path) -> job.JobFolder:
    return job.create(str(tmp_path / "store"), "job", command=["x"], interval_ms=500, rules=[], now_ns=0)


def test_the_golden_run(unpacked):
    trial = smd.create_trial(str(unpacked / "golden_raw"))
    assert trial.steps() == [0, 2, 4, 5, 8, 10, 12, 16]
    assert trial.steps(TRAIN) == [0, 2, 4, 6, 8]
    assert [trial.global_step(TRAIN, step) for step in trial.steps(TRAIN)] == [0, 2, 4, 10, 12]
    assert [trial.global_step(EVAL, step) for step in trial.steps(EVAL)] == [5, 8, 16]
    assert len(trial.tensor_names()) == 31
    weights = ["Net_blk.0.weight", "Net_blk.1.weight", "Net_fc1.weight"]
    assert trial.tensor_names(collection="weights") == weights
    assert trial.tensor_names(collection="losses") == ["CrossEntropyLoss_output_0"]
    for name in trial.tensor_names(collection="gradients"):
        assert trial.tensor(name).steps() == [0, 2, 4, 10, 12]
    shapes = {"CrossEntropyLoss_output_0": (), "CrossEntropyLoss_input_1": (5,), "Net_input_0": (5, 20)}
    shapes |= {"act_input_0": (5, 8), "act_output_1": (5, 6), "blk.0_output_0": (5, 6)}
    for name, shape in shapes.items():
        assert set(trial.tensor(name).shapes().values()) == {shape}
    assert trial.tensor("CrossEntropyLoss_input_1").value(0).dtype == np.int64
    weight = trial.tensor("Net_fc1.weight")
    for step, array in weight.values().items():
        assert weight.reduction_value(step, "std") == pytest.approx(array.std(), rel=1e-6)
        assert weight.reduction_value(step, "l1") == pytest.approx(np.abs(array).sum(), rel=1e-6)
    assert trial.loaded_all_steps


def test_reductions_are_those_that_smdebug_reads(unpacked):
    trial = smd.create_trial(str(unpacked / "golden_red"))
    expected = json.loads((DATA / "golden_red.json").read_text())
    assert len(expected) > 10
    for key, values in expected.items():
        name, mode, step = key.split("|")
        for reduction, value in values.items():
            absolute = reduction.startswith("abs_")
            found = trial.tensor(name).reduction_value(
                int(step), reduction.removeprefix("abs_"), smd.modes[mode], abs=absolute
            )
            assert found == pytest.approx(value, rel=1e-5, abs=1e-9), (key, reduction)


def test_damaged_files_cost_only_themselves(damaged, tmp_path):
    index = sorted((damaged / "index").rglob("*.json"))
    index[0].write_text("{")
    index[1].write_text("[]")
    escaped = json.loads(index[2].read_text())
    (tmp_path / "secret").write_bytes(b"x" * 1000)
    escaped["meta"]["event_file_name"] = "../secret"
    index[2].write_text(json.dumps(escaped))
    lies = json.loads(index[3].read_text())
    lies["tensor_payload"][0]["length"] = 10**9
    lies["tensor_payload"][1]["start_idx"] = 10**9
    index[3].write_text(json.dumps(lies))
    (damaged / "index" / "000000000" / "x_worker_0.json.tmp").write_text("")
    folder = _job(tmp_path)
    faults = TensorFolder(damaged, folder).update()
    assert len(faults) == 5
    assert "outside the folder" in "".join(faults)
    assert "000000000005" in "".join(faults)
    folder.update(end=1, status="Completed")
    assert smd.Trial(folder).steps() == [5, 8, 10, 12, 16]


def test_collections_of_some_workers_are_missing(damaged):
    (path,) = (damaged / "collections").rglob("*.json")
    told = json.loads(path.read_text())
    told["_meta"]["num_workers"] = 3
    path.write_text(json.dumps(told))
    with pytest.raises(smd.exceptions.MissingCollectionFiles, match="1 of 3"):
        smd.create_trial(str(damaged))
    (damaged / "training_job_end.ts").unlink()
    assert smd.create_trial(str(damaged)).num_workers == 1


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(NotSmdebugError, match="collections"):
        TensorFolder(tmp_path, _job(tmp_path))


def test_a_record_that_is_cut_or_changed_anywhere(unpacked):
    path = next((unpacked / "golden_red" / "index").rglob("*.json"))
    told = json.loads(path.read_text())
    entry = told["tensor_payload"][0]
    data = (unpacked / "golden_red" / told["meta"]["event_file_name"]).read_bytes()
    record = data[entry["start_idx"] : entry["start_idx"] + entry["length"]]
    assert event(record).array.size == 1
    for cut in range(len(record)):
        with pytest.raises(BadMessageError):
            event(record[:cut])

    @given(st.integers(0, len(record) - 1), st.integers(0, 255))
    def changed(at: int, byte: int) -> None:
        with contextlib.suppress(BadMessageError):
            event(record[:at] + bytes([byte]) + record[at + 1 :])

    changed()
