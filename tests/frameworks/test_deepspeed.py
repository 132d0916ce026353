"""DeepSpeed: one optimizer step of an engine is one step, and healthy trainings get no finding."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.trained import Trained, trained

from holter.rules import learning

pytestmark = [pytest.mark.framework("deepspeed"), pytest.mark.slow]
SCRIPT = "deepspeed_loop.py"
LEARNING = {path.stem.replace("_", "") for path in Path(learning.__path__[0]).glob("*.py")}


def launched(python: Path) -> list[str]:
    """Return the command that starts two ranks with DeepSpeed's own launcher."""
    return [str(python.parent / "deepspeed"), "--num_gpus", "2"]


def spans(it: Trained, phase: str, rank: int = 0) -> Any:
    return it.job.trial.table("spans", where=f"phase = '{phase}' AND rank = {rank} AND worker = -1")


def losses(it: Trained, mode: str, rank: int = 0) -> list[float]:
    rows = it.job.scalars.table
    mine = (rows["name"] == "loss") & (rows["mode"] == mode) & (rows["rank"] == rank)
    return [float(value) for value in rows.where(mine).sorted("time")["value"]]


def findings(it: Trained) -> list[str]:
    """Return what the rules about learning find."""
    mine = [one for one in it.told["rules"] if one["name"].lower() in LEARNING]
    assert len(mine) > 20
    return [f"{one['name']}: {issue['summary']}" for one in mine for issue in one["issues"]]


def judged(it: Trained, rule: str) -> bool:
    return any(one["coverage"]["evaluated"] for one in it.told["rules"] if one["name"] == rule)


def facts(it: Trained) -> list[dict[str, Any]]:
    rows = it.job.trial.table("events", where="kind = 'sentinel'").to_rows()
    return [one for one in (json.loads(row["detail"]) for row in rows) if "step" in one]


def check(it: Trained, batches: int = 2) -> None:
    """Check what holds for each loop with an engine."""
    assert (it.truth["model"], it.truth["losses"]) == (it.alone["model"], it.alone["losses"])
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"] == 40
    assert it.told["steps"]["unit"] == "one optimizer step of deepspeed" + (
        f", from {batches} batches" if batches > 1 else ""
    )
    assert losses(it, "train") == pytest.approx(it.truth["losses"], rel=1e-6)
    assert {"AdamW"} == set(spans(it, "optimizer")["name"].tolist())
    assert spans(it, "optimizer").rows == 40
    assert {"Net"} == set(spans(it, "forward")["name"].tolist())
    assert findings(it) == []
    assert judged(it, "UnusedParameters")
    assert judged(it, "WrongParameters")


@pytest.mark.capability("DeepSpeed", "steps", "numbers", "evaluation", "checkpoints", "identical", "learning")
@pytest.mark.parametrize("case", ["zero0", "zero1", "zero2", "zero3", "zero1_bf16"])
def test_zero_in_one_process(framework_python: Path, tmp_path: Path, case: str) -> None:
    it = trained(framework_python, SCRIPT, case, tmp_path)
    check(it)
    evaluated = losses(it, "eval")
    assert [sum(evaluated[at : at + 4]) / 4 for at in (0, 4)] == pytest.approx(it.truth["evaluated"])
    assert len(it.scalars("grad_norm", "train")) == 40
    assert max(it.scalars("grad_norm", "train")) > 0
    saved = spans(it, "checkpoint")
    assert saved["name"].tolist() == ["DeepSpeedEngine.save_checkpoint"] * 2
    files = sum(one.stat().st_size for one in (tmp_path / "saved/epoch1").iterdir())
    assert saved.sorted("time")["value"].tolist()[1] == files
    taken = facts(it)
    assert {one["optimizers"][0]["parameters"] for one in taken} == {8}
    assert {len(one["optimizers"]) for one in taken} == {1}
    assert {one["models"][0]["model"] for one in taken} == {"Net"}
    assert {one["elements"] for one in taken} == {3332}
    if case != "zero3":
        assert "head.bias" in taken[0]["names"]


@pytest.mark.capability("DeepSpeed", "steps", "identical", ranks="ZeRO 1 and 3 on two ranks")
@pytest.mark.parametrize("case", ["zero1", "zero3"])
def test_zero_with_two_ranks(framework_python: Path, tmp_path: Path, case: str) -> None:
    it = trained(framework_python, SCRIPT, case, tmp_path, launcher=launched(framework_python))
    check(it)
    other = json.loads((tmp_path / "truth-1.json").read_text())
    assert losses(it, "train", 1) == pytest.approx(other["losses"], rel=1e-6)
    assert it.told["ranks"] == [0, 1]
    assert it.told["breakdown"]["communication"] > 0
    if case == "zero3":
        assert "gather parameters" in spans(it, "communication")["name"].tolist()
    else:
        assert judged(it, "ReplicasDiffer")


@pytest.mark.capability(
    "DeepSpeed", "numbers", "identical", steps="pipelines", ranks="two stages of a pipeline"
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_pipeline(framework_python: Path, tmp_path: Path, ranks: int) -> None:
    launcher = launched(framework_python) if ranks == 2 else ()
    case = "pipeline_own_loader" if ranks == 1 else "pipeline"
    it = trained(framework_python, SCRIPT, case, tmp_path, launcher=launcher)
    assert (it.truth["model"], it.truth["losses"]) == (it.alone["model"], it.alone["losses"])
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"] == 20
    assert it.told["steps"]["unit"] == "one optimizer step of deepspeed, from 4 batches"
    for rank in range(ranks):
        assert losses(it, "train", rank) == pytest.approx(it.truth["losses"])
        assert losses(it, "eval", rank) == pytest.approx(it.truth["evaluated"])
        assert spans(it, "eval", rank)["name"].tolist() == ["eval_batch"] * 2
    if ranks == 2:
        assert spans(it, "loss", 0).rows == 0  # the first stage computes none
        assert spans(it, "loss", 1).rows == 80
        assert {"send", "recv"} <= set(spans(it, "communication")["name"].tolist())
    assert findings(it) == []


@pytest.mark.capability("DeepSpeed", steps="several engines")
def test_engines_that_train_in_turn_share_a_step(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, SCRIPT, "several", tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"] == 40
    assert it.told["steps"]["unit"] == "one iteration with 2 optimizer steps of deepspeed"
    assert findings(it) == []


def test_batches_of_a_loader_that_deepspeed_makes(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, SCRIPT, "own_loader", tmp_path)
    check(it)
    assert (spans(it, "data_loading")["name"] == "next batch").sum() >= 80


def test_a_training_goes_on_from_a_checkpoint(framework_python: Path, tmp_path: Path) -> None:
    for one in ("begins", "goes_on"):
        (tmp_path / one).mkdir()
    trained(framework_python, SCRIPT, "zero1", tmp_path / "begins", alone=False)
    shutil.copytree(tmp_path / "begins/saved", tmp_path / "goes_on/saved")
    it = trained(framework_python, SCRIPT, "resumed_zero1", tmp_path / "goes_on")
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"] == 20
    assert spans(it, "annotation")["name"].tolist() == ["DeepSpeedEngine.load_checkpoint"]
    assert findings(it) == []


def test_the_trainer_of_hugging_face_owns_the_steps(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, SCRIPT, "trainer", tmp_path)
    assert (it.truth["model"], it.truth["losses"]) == (it.alone["model"], it.alone["losses"])
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"] == 24
    assert it.told["steps"]["unit"] == "one optimizer step of transformers.Trainer, from 2 batches"
    assert losses(it, "train") == pytest.approx([float(one) for one in it.truth["losses"]], abs=1e-3)
    assert findings(it) == []


@pytest.mark.capability("DeepSpeed", learning="a model that is left in evaluation mode")
def test_a_model_that_is_left_in_evaluation_mode_is_found(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, SCRIPT, "left_in_eval", tmp_path, alone=False)
    assert [one.partition(":")[0] for one in findings(it)] == ["ModelInEvalMode"]


@pytest.mark.capability(
    "DeepSpeed", parts="data loading, forward, loss, backward, optimizer, evaluation, checkpoint"
)
def test_the_breakdown_agrees_with_a_clock_in_the_script(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, SCRIPT, "zero1_clock", tmp_path, alone=False)

    assert it.off_clock("load", "data_loading") < 3
    assert it.off_clock("forward", "forward", "loss") < 3
    # Communication in these parts has a phase of its own.
    assert it.off_clock("backward", "backward", spans=True) < 3
    assert it.off_clock("step", "optimizer", spans=True) < 3
    assert min(it.of_clock("load"), it.of_clock("backward"), it.of_clock("step")) > 5
    assert it.share("eval") == pytest.approx(it.of_clock("evaluate"), abs=3)
    assert it.share("checkpoint") == pytest.approx(it.of_clock("save"), abs=3)


@pytest.mark.capability("DeepSpeed", "verdict")
@pytest.mark.parametrize("case", ["data", "compute"])
def test_twins_get_their_verdicts(framework_python: Path, tmp_path: Path, case: str) -> None:
    it = trained(framework_python, SCRIPT, case, tmp_path, alone=False)
    # The suspect of so short a job may be its start-up; the sentence then goes on with the loop.
    assert ("ata loading takes" in it.told["verdict"]["sentence"]) is (case == "data")
    shares = it.told["breakdown"]
    if case == "data":
        assert shares["data_loading"] == max(shares.values())
        assert it.off_clock("load", "data_loading") < 3
    else:
        assert shares["forward"] + shares["backward"] + shares["optimizer"] > 50


@pytest.mark.capability("DeepSpeed", tensors="weights that ZeRO keeps whole")
@pytest.mark.parametrize("case", ["zero1", "zero3"])
def test_saved_weights_are_those_of_the_model(framework_python: Path, tmp_path: Path, case: str) -> None:
    save = ("--save", "weights@10", "--save", "gradients@10")
    it = trained(framework_python, SCRIPT, case, tmp_path, *save, alone=False)
    assert it.told["cost"]["faults"] == []
    rows = it.job.trial.table("tensors")
    # ZeRO frees gradients, and ZeRO 3 weights, too: what is left of them is not the tensor.
    saved = {one for one in rows["name"].tolist() if "." in one}
    assert {"body.weight", "inner.weight", "head.weight"} <= saved if case == "zero1" else not saved
    assert not any(one.startswith("gradient/") for one in saved)


def test_nothing_is_left_when_the_recorder_stops(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, SCRIPT, "closed", tmp_path, alone=False)
    assert it.truth["left"] == []
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == 40
