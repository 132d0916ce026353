"""Hugging Face Trainer: steps, losses and evaluations are those that the trainer reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frameworks.bars import undisturbed
from tests.frameworks.trained import Trained, trained

pytestmark = [pytest.mark.framework("transformers"), pytest.mark.slow]


@pytest.fixture(scope="module")
def plain(framework_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained(framework_python, "transformers_loop.py", "plain", tmp_path_factory.mktemp("plain"))


@pytest.mark.capability("Hugging Face Trainer", "steps", "identical", "numbers")
def test_a_training_stays_the_same_and_its_numbers_are_those_that_it_reports(plain: Trained) -> None:
    assert plain.truth["model"] == plain.alone["model"]
    assert plain.told["cost"]["faults"] == []
    assert plain.told["steps"]["count"] == plain.truth["steps"] == 40
    assert plain.told["steps"]["unit"] == "one optimizer step of transformers.Trainer"
    assert plain.scalars("loss", "train") == pytest.approx(plain.truth["losses"], abs=1e-4)
    assert plain.scalars("eval_loss", "eval") == pytest.approx(plain.truth["validation"])
    assert plain.scalars("loss", "eval") == []
    assert len(plain.scalars("learning_rate", "train")) == 40
    rows = plain.job.scalars.table
    rates = rows.where(rows["name"] == "learning_rate").sorted("time")
    assert rates["step"].tolist() == list(range(40))


@pytest.mark.capability("Hugging Face Trainer", "evaluation", "checkpoints")
def test_evaluations_and_checkpoints_are_parts_of_their_own(plain: Trained) -> None:
    spans = plain.job.trial.table("spans", where="worker = -1")
    assert (spans["phase"] == "eval").sum() == 4
    assert plain.share("eval") == pytest.approx(plain.of_clock("evaluate"), abs=6)
    assert plain.told["breakdown"]["checkpoint"] > 0


@pytest.mark.capability("Hugging Face Trainer", steps="accumulation of gradients")
def test_the_loss_of_an_accumulation_is_the_reported_one(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "transformers_loop.py", "accumulated", tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["steps"]["count"] == it.truth["steps"] == 14
    assert it.told["steps"]["unit"] == "one optimizer step of transformers.Trainer, from 3 batches"
    assert it.scalars("loss", "train") == pytest.approx(it.truth["losses"], abs=1e-4)


@pytest.mark.capability("Hugging Face Trainer", "callbacks")
def test_a_slow_callback_is_named(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "transformers_loop.py", "callback", tmp_path, alone=False)
    assert it.seconds("callback Slow.on_step_end") == pytest.approx(it.truth["took"]["callback"], rel=0.05)
    assert it.named("callback Slow.on_step_end") > 5
    assert it.told["verdict"]["suspect"] == "own_code"
    assert "Slow.on_step_end" in it.told["verdict"]["sentence"]


@pytest.mark.capability("Hugging Face Trainer", "verdict", parts="data loading")
@pytest.mark.parametrize(("case", "suspect"), [("data", "data_pipeline"), ("compute", "healthy")])
def test_twins_get_their_verdicts(framework_python: Path, tmp_path: Path, case: str, suspect: str) -> None:
    it = trained(framework_python, "transformers_loop.py", case, tmp_path, alone=False)
    verdict = it.told["verdict"]
    found = {verdict["suspect"], *verdict["also"]} - {"mixed", "contention"}  # other programs use the cores
    assert found <= {suspect}
    if case == "data":
        assert found == {suspect}
        # The batches of a step are fetched before the trainer begins it.
        assert it.share("data_loading") == pytest.approx(it.of_clock("load"), abs=3)


def test_its_progress_bar_is_not_disturbed(framework_python: Path, tmp_path: Path) -> None:
    undisturbed(framework_python, "trainer", r"\d+%\|", "60/60", tmp_path)
