"""Event files of a job, read by TensorBoard itself where it is installed, and always by our own reader."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.report.event_files import by_hand, by_tensorboard, crc32c, events
from tests.tensors.writing import Recording

from holter.cli import main
from holter.report.exports import ExportSelection, tensorboard
from holter.report.exports.tensorboard import write
from holter.store.trial import Trial
from holter.store.writer import Writer

READERS = {
    "our own reader": by_hand,
    "tensorboard": pytest.param(
        by_tensorboard, marks=pytest.mark.skipif(not find_spec("tensorboard"), reason="needs tensorboard")
    ),
}
SECOND = 10**9


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Recording:
    """Two modes of one rank; a loss, a tensor with a histogram at two steps, one with a NaN."""
    made = Recording(tmp_path_factory.mktemp("store"))
    writer = Writer(made.folder, "n0")
    x = np.array([-1.0, 0, 0, 3])
    for step, mode in ((0, "train"), (5, "train"), (5, "eval")):
        moment = {"time": [(1_700_000_000 + step) * SECOND], "rank": [0], "step": [step], "mode": [mode]}
        writer.append("scalars", {**moment, "name": ["loss"], "value": [math.nan if step else 0.5]})
        made.save(step, {"fc1.weight": x, "loss_output_0": 2.5}, mode=mode)
        made.save(step, {"bad": np.array([1.0, np.nan, np.inf])}, mode=mode)
        if mode == "train":
            heights = np.histogram(x, bins=4)[0]
            four = {key: value * 4 for key, value in moment.items()}
            writer.append(
                "tensor_values",
                {
                    **four,
                    "name": ["fc1.weight"] * 4,
                    "kind": ["histogram"] * 4,
                    "position": range(4),
                    "value": heights,
                },
            )
    assert writer.close()
    return made


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_scalars_and_histograms_by_mode(recording, tmp_path, read):
    # D16: one file for a mode, not one for each step; what is not a number is counted, not dropped.
    assert write(Trial(recording.folder), ExportSelection(), tmp_path) == 3 + 3 * 2 + 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["eval", "train"]
    assert len(list(tmp_path.rglob("*tfevents*"))) == 2
    train = read(tmp_path / "train")
    assert set(train["scalars"]) == {"loss", "loss_output_0", "nonfinite/bad"}
    (first, last) = train["scalars"]["loss"]
    assert first == [1_700_000_000, 0, 0.5]
    assert last[:2] == [1_700_000_005, 5]
    assert math.isnan(last[2])
    assert [row[1:] for row in train["scalars"]["nonfinite/bad"]] == [[0, 2.0], [5, 2.0]]
    assert set(train["histograms"]) == {"fc1.weight"}
    for step, row in zip((0, 5), train["histograms"]["fc1.weight"], strict=True):
        assert row[0] == step
        # TensorBoard puts an empty bin before the first.
        assert row[1][-4:] == [0.0, 1.0, 2.0, 3.0]
        assert row[2][-4:] == np.histogram([-1.0, 0, 0, 3], bins=4)[0].tolist()
        assert row[3:] == pytest.approx([4, 2, 10])
    assert not read(tmp_path / "eval")["histograms"]


def test_ranks_are_runs_of_their_own(tmp_path):
    recording = Recording(tmp_path / "store", ranks=(0, 1))
    for rank in (0, 1):
        recording.save(3, {"loss": rank + 0.5}, rank=rank)
    write(Trial(recording.folder), ExportSelection(), tmp_path / "out")
    for rank in (0, 1):
        found = by_hand(tmp_path / "out" / "train" / f"rank{rank}")
        assert [row[1:] for row in found["scalars"]["loss"]] == [[3, rank + 0.5]]


def test_a_mode_that_is_none_leads_nowhere_else(tmp_path):
    recording = Recording(tmp_path / "store")
    recording.save(0, {"loss": 1.0}, mode="../../escaped")
    assert write(Trial(recording.folder), ExportSelection(), tmp_path / "a" / "out") == 0
    assert not (tmp_path / "escaped").exists()


def test_checksums_and_odd_values(tmp_path):
    assert tensorboard.crc32c(b"123456789") == crc32c(b"123456789") == 0xE3069283  # the known check value
    path = tmp_path / "x.tfevents"
    with path.open("wb") as file:
        written = tensorboard.EventFile(file, 1.5)
        for step, value in ((-1, 1e300), (2**40, -1e300), (0, math.inf)):
            written.scalar("größe/\ud800", step, 2.0, value)
    first, *rest = events(path)
    assert first[1] == 1.5
    assert [event[2] for event in rest] == [2**64 - 1, 2**40, 0]
    found = by_hand(tmp_path)["scalars"]
    assert [row[2] for row in found["größe/?"]] == [math.inf, -math.inf, math.inf]


def test_the_command(recording, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = recording.folder.url
    assert main(["export", job, "--format", "tensorboard", "-o", "runs"]) == 0
    assert "tensorboard --logdir runs" in capsys.readouterr().out
    assert list(Path("runs").rglob("*tfevents*"))
    refusals = {
        ("--format", "tensorbord", "-o", "new"): "did you mean 'tensorboard'",
        ("--format", "tensorboard", "-o", "runs"): "not an empty folder",
        ("--format", "tensorboard"): "--output",
    }
    for words, why in refusals.items():
        assert main(["export", job, *words]) == 64
        assert why in capsys.readouterr().err
    assert not Path("new").exists()
    empty = Recording(tmp_path / "store", "empty").folder.url
    assert main(["export", empty, "--format", "tensorboard", "-o", "none"]) == 65
    assert "no scalars" in capsys.readouterr().err
