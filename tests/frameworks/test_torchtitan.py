"""torchtitan: its trainer owns the steps, its log names the phases, its numbers are those that it reports."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from tests.frameworks.trained import Trained, trained
from tests.jobs.starting import holter
from tests.ports import free_port

from holter.job import open as open_job

pytestmark = [pytest.mark.framework("torchtitan"), pytest.mark.slow]


@pytest.fixture(autouse=True, scope="module")
def one_rank() -> None:
    """Let torchtitan find one rank, as under a launcher."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}.items():
            patch.setenv(name, value)
        patch.setenv("MASTER_ADDR", "127.0.0.1")
        patch.setenv("MASTER_PORT", str(free_port()))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plain")


@pytest.fixture(scope="module")
def plain(framework_python: Path, folder: Path, one_rank: None) -> Trained:
    return trained(framework_python, "torchtitan_loop.py", "plain", folder)


def values(job: object, name: str) -> dict[int, float]:
    rows = job.scalars.table
    rows = rows.where(rows["name"] == name)
    return dict(zip(rows["step"].tolist(), rows["value"].tolist(), strict=True))


@pytest.mark.capability("torchtitan", "steps", "identical", "numbers")
def test_a_training_stays_the_same_and_its_numbers_are_those_that_it_logs(plain: Trained) -> None:
    assert plain.truth["model"] == plain.alone["model"]
    assert plain.told["cost"]["faults"] == []
    assert plain.told["steps"]["count"] == plain.truth["steps"] == 12
    assert plain.told["steps"]["unit"] == "one optimizer step of torchtitan"
    logged = plain.truth["logged"]
    assert [one["step"] for one in logged] == [1, 2, 4, 6, 8, 10, 12]
    assert {"throughput(tps)", "mfu(%)", "grad_norm"} < set(logged[0])
    for name in set(logged[0]) - {"step"}:
        assert values(plain.job, name) == {one["step"] - 1: one[name] for one in logged}, name
    assert values(plain.job, "loss") == values(plain.job, "loss_metrics/global_avg_loss")
    mine = values(plain.job, "grad_norm/shard")  # before torchtitan clips it
    theirs = values(plain.job, "grad_norm")
    assert {step: mine[step] for step in mine.keys() & theirs} == pytest.approx(
        {step: theirs[step] for step in mine.keys() & theirs}, rel=1e-5
    )
    (planned,) = plain.job.trial.table("events", where="kind = 'planned'").to_rows()
    assert '"steps": 12' in planned["detail"]


@pytest.mark.capability("torchtitan", parts="as in its structured log")
def test_phases_are_those_of_the_log(plain: Trained, folder: Path, tmp_path: Path) -> None:
    """The log that the training wrote, imported, has the same steps and phases."""
    logs = list(folder.glob(f"{plain.truth['dump']}/structured_logs/*"))
    assert len(logs) == 1
    holter("import", str(logs[0]), "--store", str(tmp_path / "store"), "--job", "log", cwd=tmp_path)
    log = open_job(str(tmp_path / "store/log"))
    told = json.loads(holter("describe", "log", "--store", str(tmp_path / "store"), "--json").stdout)
    assert told["steps"]["count"] == 12
    assert told["steps"]["unit"] == "one optimizer step of torchtitan"
    for name in ("fetching_batch", "fwd_bwd", "optim", "checkpoint_save", "collect_dist_metrics"):
        live = plain.job.trial.table("spans", where=f"name = '{name}'").sorted("time")
        read = log.trial.table("spans", where=f"name = '{name}'").sorted("time")
        assert live.rows == read.rows > 0, name
        assert median(abs(live["duration"] - read["duration"])) < 1_000_000, name
        assert live["step"].tolist() == [step - 1 for step in read["step"].tolist()], name
    assert values(log, "global_valid_tokens") == {
        step + 1: value for step, value in values(plain.job, "global_valid_tokens").items()
    }


@pytest.mark.capability("torchtitan", "checkpoints")
def test_checkpoints_are_those_that_are_written(plain: Trained) -> None:
    spans = plain.job.trial.table("spans", where="phase = 'checkpoint' AND name = 'checkpoint_save'")
    assert spans["step"].tolist() == [5, 11]


@pytest.mark.capability("torchtitan", steps="several batches, a canceled step, without a log")
@pytest.mark.parametrize(
    ("case", "steps"),
    [("accumulated", 12), ("short", 7), ("quiet", 12)],
    ids=["accumulated", "short", "quiet"],
)
def test_a_step_is_an_update(framework_python: Path, tmp_path: Path, case: str, steps: int) -> None:
    """With two batches; with too little data, so that the last step is canceled; without a structured log."""
    it = trained(framework_python, "torchtitan_loop.py", case, tmp_path, alone=False)
    assert it.told["steps"]["count"] == steps
    assert it.told["cost"]["faults"] == []
    if case != "short":
        assert it.truth["steps"] == steps


def test_a_slow_loader_holds_the_training_up(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "torchtitan_loop.py", "data", tmp_path, alone=False)
    verdict = it.told["verdict"]
    assert "data_pipeline" in {verdict["suspect"], *verdict["also"]}
    steps = it.job.steps.table
    assert float(steps["data_loading"].sum()) / 1e9 == pytest.approx(it.truth["took"]["load"], rel=0.03)
