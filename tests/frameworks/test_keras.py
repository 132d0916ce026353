"""Keras on torch: steps are exact, numbers are those of the training, models stay the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.jobs.starting import environment, holter

from holter.job import open as open_job

pytestmark = pytest.mark.framework("keras")
SCRIPT = str(Path(__file__).parent / "trainings/keras_on_torch.py")


@dataclass(frozen=True)
class Trained:
    """A training without and with holter."""

    alone: dict[str, Any]
    truth: dict[str, Any]
    told: dict[str, Any]
    folder: Path

    def table(self, name: str) -> Any:
        return getattr(open_job(str(self.folder / "store/it")), name).table

    def share(self, part: str) -> float:
        """Return the percentage of a part in the steps that the script timed."""
        steps = self.table("steps")
        steps = steps.where(steps["step"] >= self.truth["first"])
        return 100 * float(steps[part].sum()) / float(steps["duration"].sum())

    def of_clock(self, part: str) -> float:
        """Return the percentage of a part in the loop by the clock of the script."""
        return 100 * float(self.truth["took"][part]) / float(self.truth["loop"])

    def off_clock(self, part: str) -> float:
        """Return by how many percent of a step a part differs from the script's clock, in the usual step.

        A sum would show the pauses of a busy machine between the end of a part in the recorder and in the
        script.
        """
        steps = self.table("steps")
        steps = steps.where(steps["step"] >= self.truth["first"]).sorted("step")
        clock = {name: np.array([one[name] for one in self.truth["each"]]) for name in (part, "loop")}
        own = steps[part] / (steps["duration"] - steps["eval"] - steps["checkpoint"])
        return 100 * float(np.median(np.abs(own - clock[part] / clock["loop"])))

    def rows(self, name: str) -> list[dict[str, Any]]:
        return list(self.table(name).to_rows())


Train = Callable[[str], Trained]


@pytest.fixture(scope="module")
def trained(framework_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    kept: dict[str, Trained] = {}

    def train(case: str) -> Trained:
        if case not in kept:
            folder, command = tmp_path_factory.mktemp(case), [str(framework_python), SCRIPT, case]
            subprocess.run(command, cwd=folder, env=environment(), check=True, timeout=200)
            alone = json.loads((folder / "truth.json").read_text())
            holter("run", "--store", "store", "--job", "it", "--", *command, cwd=folder)
            told = json.loads(holter("describe", "it", "--store", "store", "--json", cwd=folder).stdout)
            kept[case] = Trained(alone, json.loads((folder / "truth.json").read_text()), told, folder)
        return kept[case]

    return train


CASES = (
    *("arrays", "clocked", "data_bound", "compute_bound", "loader"),
    *("on_batch", "own_loop", "several", "validating"),
)


@pytest.mark.capability("Keras on torch", "steps", "identical")
@pytest.mark.parametrize("case", CASES)
def test_steps_are_exact_and_the_model_is_the_same(trained: Train, case: str) -> None:
    job = trained(case)
    told = job.told
    assert job.truth["model"] == job.alone["model"]
    assert told["cost"]["faults"] == []
    assert told["steps"]["count"] == job.truth["steps"]
    assert set(job.table("steps")["mode"].tolist()) == {"train"}
    shares = told["breakdown"]
    assert sum(shares.values()) == pytest.approx(100)
    assert all(shares[part] > 0 for part in ("forward", "loss", "backward", "optimizer"))
    assert told["not_seen"] == []
    names = {row["name"] for row in job.rows("spans") if row["phase"] == "optimizer"}
    assert names == {"Adam"}


@pytest.mark.capability("Keras on torch", "numbers")
def test_losses_are_what_the_training_reports(trained: Train) -> None:
    job = trained("arrays")
    assert {**job.truth, "model": ""} == {**job.alone, "model": ""}
    history = job.truth["history"]
    scalars = job.rows("scalars")
    trains = [row for row in scalars if row["mode"] == "train"]
    for name in ("loss", "accuracy"):
        last = {row["step"]: row["value"] for row in trains if row["name"] == name}
        assert sorted(last) == list(range(120))
        assert [last[39], last[79], last[119]] == pytest.approx(history[name], rel=1e-9)
    for name in ("val_loss", "val_accuracy"):
        found = [row["value"] for row in scalars if row["name"] == name]
        assert found == pytest.approx(history[name])
        assert {row["mode"] for row in scalars if row["name"] == name} == {"eval"}
    after = {row["name"]: row["value"] for row in scalars if row["mode"] == "eval" and row["step"] == 120}
    assert [after["loss"], after["accuracy"]] == pytest.approx(job.truth["evaluated"])
    rates = [row["value"] for row in scalars if row["name"] == "lr"]
    assert rates
    assert rates == [pytest.approx(0.003)] * len(rates)


def test_losses_of_a_callback_that_needs_them_are_the_same(trained: Train) -> None:
    job = trained("loader")
    scalars = job.rows("scalars")
    losses = sorted((row["step"], row["value"]) for row in scalars if row["name"] == "loss")
    assert losses == [(at, pytest.approx(loss)) for at, loss in enumerate(job.truth["losses"])]


@pytest.mark.capability("Keras on torch", "evaluation", "checkpoints", "callbacks", "epochs")
def test_evaluations_checkpoints_callbacks_and_epochs_are_recorded(trained: Train) -> None:
    job = trained("arrays")
    spans = job.rows("spans")

    def names(phase: str) -> list[str]:
        return [row["name"] for row in sorted(spans, key=lambda row: row["time"]) if row["phase"] == phase]

    assert names("eval") == ["predict", "validation", "validation", "validation", "evaluate", "predict"]
    assert names("checkpoint") == ["Model.save"] * 3
    sizes = [row["value"] for row in spans if row["phase"] == "checkpoint"]
    assert set(sizes) == {(job.folder / "best.keras").stat().st_size}
    assert "callback ModelCheckpoint" in names("annotation")
    events = job.rows("events")
    epochs = [json.loads(row["detail"]) for row in events if row["kind"] == "epoch"]
    assert [(one["number"], one["step"]) for one in epochs] == [(1, 0), (2, 40), (3, 80)]
    planned = [json.loads(row["detail"]) for row in events if row["kind"] == "planned"]
    assert [one["steps"] for one in planned] == [120]
    assert job.told["job"]["framework"]["name"] == "keras"
    slow = [row for row in trained("loader").rows("spans") if row["name"] == "callback Dawdling"]
    assert sum(row["duration"] for row in slow) >= 2 * 0.3e9


@pytest.mark.capability("Keras on torch", callbacks="slow ones, by function and line")
def test_a_slow_callback_is_named_by_function_and_line(trained: Train) -> None:
    told = trained("slow_callback").told
    assert told["cost"]["faults"] == []
    assert told["verdict"]["suspect"] == "own_code"
    lines = Path(SCRIPT).read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "time.sleep(0.05)" in text)
    assert (
        f"time.sleep, called by Slow.on_train_batch_end (keras_on_torch.py:{line})"
        in told["verdict"]["sentence"]
    )


@pytest.mark.capability(
    "Keras on torch", parts="data loading, forward, loss, backward, optimizer, evaluation, checkpoint"
)
def test_the_breakdown_agrees_with_a_clock_in_the_script(trained: Train) -> None:
    job = trained("clocked")
    for part in ("data_loading", "forward", "loss", "backward", "optimizer"):
        assert job.off_clock(part) < 3, part
    for part in ("eval", "checkpoint"):
        assert job.share(part) == pytest.approx(job.of_clock(part), abs=3), part


def test_calls_that_do_not_train_are_an_evaluation(trained: Train) -> None:
    job = trained("validating")
    assert job.share("eval") == pytest.approx(job.of_clock("eval"), abs=3)


@pytest.mark.capability("Keras on torch", "verdict")
def test_slow_batches_and_a_large_model_get_the_right_verdict(trained: Train) -> None:
    # The suspect of so short a job may be its start-up; the sentence then goes on with the loop.
    job = trained("data_bound")
    assert job.share("data_loading") == pytest.approx(job.of_clock("data_loading"), abs=3)
    slow = job.told
    assert "ata loading takes" in slow["verdict"]["sentence"]
    assert "Batches.__getitem__" in slow["verdict"]["sentence"]
    assert slow["breakdown"]["data_loading"] == max(slow["breakdown"].values())
    assert any("Batches.__getitem__" in one["name"] for one in slow["dataloading"]["callables"])
    large = trained("compute_bound").told
    assert "ata loading takes" not in large["verdict"]["sentence"]
    assert large["breakdown"]["data_loading"] < 10
