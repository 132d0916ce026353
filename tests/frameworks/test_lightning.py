"""Lightning: the trainer owns the steps; evaluations, callbacks and numbers are what it reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frameworks.bars import undisturbed
from tests.frameworks.trained import Trained, trained

pytestmark = [pytest.mark.framework("lightning"), pytest.mark.slow]


@pytest.fixture(scope="module")
def plain(framework_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained(framework_python, "lightning_loop.py", "plain", tmp_path_factory.mktemp("plain"))


@pytest.mark.capability("Lightning", "steps", "identical", "numbers", "epochs")
def test_a_training_stays_the_same_and_its_numbers_are_those_that_it_reports(plain: Trained) -> None:
    assert plain.truth["model"] == plain.alone["model"]
    assert plain.told["cost"]["faults"] == []
    assert plain.told["steps"]["count"] == plain.truth["steps"] == 72
    assert plain.told["steps"]["unit"] == "one optimizer step of lightning.Trainer"
    assert plain.scalars("loss", "train") == pytest.approx(plain.truth["losses"])
    assert plain.scalars("train_loss_step", "train") == pytest.approx(plain.truth["losses"])
    assert plain.scalars("val_loss", "eval") == pytest.approx(plain.truth["validation"])
    means = [sum(plain.truth["losses"][at : at + 24]) / 24 for at in (0, 24, 48)]
    assert plain.scalars("train_loss_epoch", "train") == pytest.approx(means, rel=1e-4)
    assert sorted(set(plain.scalars("epoch", "train"))) == [0, 1, 2]
    (planned,) = plain.job.trial.table("events", where="kind = 'planned'").to_rows()
    assert '"steps": 72' in planned["detail"]


@pytest.mark.capability("Lightning", evaluation="apart from the sanity check")
def test_the_sanity_check_does_not_count_as_an_evaluation(plain: Trained) -> None:
    spans = plain.job.trial.table("spans", where="worker = -1")
    steps = plain.job.steps.table
    (check,) = spans.where(spans["name"] == "sanity check").to_rows()
    assert check["time"] + check["duration"] <= int(steps["time"].min())
    validations = spans.where(spans["phase"] == "eval")
    assert set(validations["name"].tolist()) == {"validation"}
    assert validations.rows == 3
    assert plain.scalars("loss", "eval") == []  # its own losses are `val_loss`


@pytest.mark.capability("Lightning", "checkpoints")
def test_checkpoints_of_callbacks_lie_outside_of_evaluations(plain: Trained) -> None:
    spans = plain.job.trial.table("spans", where="phase = 'checkpoint'")
    assert spans.rows == 3
    assert (spans["value"] > 1000).all()
    evaluations = plain.job.trial.table("spans", where="phase = 'eval'")
    for begin, end in zip(evaluations["time"], evaluations["time"] + evaluations["duration"], strict=True):
        assert not ((spans["time"] >= begin) & (spans["time"] < end)).any()


@pytest.mark.capability("Lightning", steps="accumulation of gradients")
def test_a_step_is_an_optimizer_step(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "lightning_loop.py", "accumulated", tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["steps"]["count"] == it.truth["steps"] == 15
    assert it.told["steps"]["unit"] == "one optimizer step of lightning.Trainer, from 5 batches"
    assert "a step" in it.card
    assert it.scalars("loss", "train") == pytest.approx(it.truth["losses"])


@pytest.mark.capability("Lightning", steps="several optimizers")
def test_several_optimizers_share_a_step(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "lightning_loop.py", "gan", tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["steps"]["count"] == it.truth["steps"] == 72
    assert it.told["steps"]["unit"] == "one iteration with 1 to 2 optimizer steps of lightning.Trainer"
    assert "1 to 2 optimizer steps" in " ".join(it.card.split())


@pytest.mark.capability("Lightning", "callbacks")
def test_a_slow_callback_is_named(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "lightning_loop.py", "callback", tmp_path, alone=False)
    assert it.seconds("callback Slow.on_train_batch_end") == pytest.approx(
        it.truth["took"]["callback"], rel=0.05
    )
    assert it.named("callback Slow.on_train_batch_end") > 5
    assert it.told["verdict"]["suspect"] == "own_code"
    assert "Slow.on_train_batch_end" in it.told["verdict"]["sentence"]
    assert "Slow.on_train_batch_end" in it.card


@pytest.mark.capability("Lightning", "verdict", parts="data loading")
@pytest.mark.parametrize(("case", "suspect"), [("data", "data_pipeline"), ("compute", "healthy")])
def test_twins_get_their_verdicts(framework_python: Path, tmp_path: Path, case: str, suspect: str) -> None:
    it = trained(framework_python, "lightning_loop.py", case, tmp_path, alone=False)
    verdict = it.told["verdict"]
    found = {verdict["suspect"], *verdict["also"]} - {"mixed", "contention"}  # other programs use the cores
    assert found <= {suspect}
    if case == "data":
        assert found == {suspect}
        assert it.share("data_loading") == pytest.approx(it.of_clock("load"), abs=3)


def test_the_start_of_workers_loads_data(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "lightning_loop.py", "workers", tmp_path, alone=False)
    assert it.told["steps"]["count"] == 72
    spans = it.job.trial.table("spans", where="name = 'iterator start' AND worker = -1")
    steps = it.job.steps.table
    assert (spans["time"] >= int(steps["time"].min())).sum() >= 3  # one for each epoch


@pytest.mark.parametrize("bar", ["tqdm", "rich"])
def test_its_progress_bar_is_not_disturbed(framework_python: Path, tmp_path: Path, bar: str) -> None:
    undisturbed(framework_python, bar, "Epoch 0", "60/60", tmp_path)
