"""Ray Train, Ray Data and Ray Tune: workers have their ranks, and what Ray does has a name."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.trained import Trained, trained
from tests.jobs.starting import environment
from tests.recorder.reading import BOOTSTRAP

pytestmark = [pytest.mark.framework("ray"), pytest.mark.slow]


@pytest.fixture(scope="module")
def plain(framework_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained(framework_python, "ray_train.py", "plain", tmp_path_factory.mktemp("plain"))


def of_rank(it: Trained, rank: int, name: str, mode: str = "train") -> list[float]:
    rows = it.job.scalars.table
    rows = rows.where((rows["rank"] == rank) & (rows["name"] == name) & (rows["mode"] == mode))
    return [float(value) for value in rows.sorted("time")["value"]]


def events(it: Trained, *kinds: str) -> list[dict[str, Any]]:
    found = it.job.trial.table("events").to_rows()
    return [{**json.loads(row["detail"]), **row} for row in found if row["kind"] in kinds]


@pytest.mark.capability("Ray Train", "steps", "identical", "numbers", "ranks")
def test_a_training_stays_the_same_and_its_ranks_are_those_of_ray(plain: Trained) -> None:
    assert plain.told["cost"]["faults"] == []
    assert plain.told["steps"]["count"] == 48
    assert plain.told["steps"]["trainings"] == [48]
    pids = {one["rank"]: one["pid"] for one in events(plain, "process") if one["role"] == "trainer"}
    for rank, (alone, truth) in enumerate(zip(plain.alone["ranks"], plain.truth["ranks"], strict=True)):
        assert (truth["model"], truth["losses"]) == (alone["model"], alone["losses"])
        assert pids[rank] == truth["pid"]
        assert of_rank(plain, rank, "loss") == pytest.approx(truth["losses"])
    assert {one["world_size"] for one in events(plain, "rank")} == {2}
    steps = plain.job.steps.table
    assert [int((steps["rank"] == rank).sum()) for rank in (0, 1)] == [48, 48]


@pytest.mark.capability("Ray Train", numbers="those of `ray.train.report`")
def test_reported_numbers_have_their_values(plain: Trained) -> None:
    for rank, truth in enumerate(plain.truth["ranks"]):
        assert of_rank(plain, rank, "reported_loss") == pytest.approx(truth["reported"])
        assert of_rank(plain, rank, "epoch") == [0, 1]
        assert of_rank(plain, rank, "val_loss", "eval") == pytest.approx([x / 2 for x in truth["reported"]])


@pytest.mark.capability("Ray Train", "checkpoints")
def test_reports_with_a_checkpoint_are_checkpoints(plain: Trained) -> None:
    spans = plain.job.trial.table("spans", where="name = 'ray.train.report'")
    phases = {rank: spans["phase"][spans["rank"] == rank].tolist() for rank in (0, 1)}
    assert phases == {0: ["checkpoint"] * 2, 1: ["annotation"] * 2}
    for rank, truth in enumerate(plain.truth["ranks"]):
        took = float(spans["duration"][spans["rank"] == rank].sum()) / 1e9
        assert took == pytest.approx(truth["took"]["report"], rel=0.1, abs=0.02)


def test_workers_that_ray_ends_are_not_lost(plain: Trained) -> None:
    assert events(plain, "lost", "exception", "hang") == []
    assert {one["clean"] for one in events(plain, "exit") if one["role"] == "trainer"} == {True}
    assert "StalledTraining" not in plain.card
    assert plain.told["job"]["failure"] is None


@pytest.mark.capability("Ray Train", "verdict", parts="data loading, with the stages of Ray Data")
def test_the_wait_for_ray_data_is_data_loading_with_its_stage(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "ray_train.py", "data", tmp_path, alone=False)
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == 48
    steps = it.job.steps.table
    for rank, truth in enumerate(it.truth["ranks"]):
        mine = steps.where(steps["rank"] == rank)
        loaded = 100 * float(mine["data_loading"].sum()) / 1e9 / truth["loop"]
        assert loaded == pytest.approx(100 * truth["took"]["load"] / truth["loop"], abs=3)
    verdict = it.told["verdict"]
    assert "data_pipeline" in (verdict["suspect"], *verdict["also"])
    assert "waiting for Ray Data's tasks" in verdict["sentence"]
    assert any("Ray Data's tasks" in one["text"] for one in verdict["advice"])
    assert it.named("waiting for Ray Data's tasks") > 30


@pytest.mark.capability("Ray Train", steps="attempts after a failed worker")
def test_a_restarted_group_of_workers_is_another_attempt(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "ray_train.py", "restart", tmp_path, alone=False)
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["trainings"] == [30, 48]
    assert it.told["steps"]["restarted"] is True
    assert "2 attempts of one training: 30 + 48 steps" in it.card
    (raised,) = events(it, "exception")
    assert (raised["rank"], raised["type"], raised["step"]) == (1, "RuntimeError", 30)
    assert "recorder/frameworks" not in raised["traceback"]
    assert events(it, "lost") == []
    assert it.told["job"]["failure"] is None


def test_trials_of_ray_tune_are_not_mixed(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "ray_tune.py", "", tmp_path)
    assert it.truth["losses"] == it.alone["losses"]
    assert it.told["steps"]["count"] == it.truth["steps"] == 30
    assert set(it.job.steps.table["rank"].tolist()) == {0}
    assert it.told["verdict"]["missing"][-1] == "1 other trial of Ray Tune"
    assert "1 other trial of Ray Tune" in it.card


@pytest.fixture
def cluster(
    framework_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[bytes]]:
    """A cluster of one node that runs before the job, and the environment that leads to it."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray = framework_python.parent / "ray"
    words = ["start", "--head", "--block", "--num-cpus", "4", "--port", "6391", "--disable-usage-stats"]
    with open(tmp_path / "started", "wb") as log:
        started = subprocess.Popen(
            [ray, *words, "--include-dashboard=false"], env=environment(PYTHONPATH=""), stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 120
        while b"Ray runtime started" not in (tmp_path / "started").read_bytes():
            assert started.poll() is None
            assert time.monotonic() < deadline, "the cluster did not start in time"
            time.sleep(0.3)
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6391")
        yield started
    finally:
        started.terminate()
        started.wait(60)


@pytest.mark.capability("Ray Train", ranks="a cluster that runs before the job")
def test_workers_of_a_running_cluster_are_recorded_beside_a_users_hook(
    framework_python: Path,
    tmp_path: Path,
    cluster: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_RUNTIME_ENV_HOOK", "ray_hook.hook")
    it = trained(framework_python, "ray_train.py", "plain", tmp_path, alone=False)
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == 48
    assert set(it.job.steps.table["rank"].tolist()) == {0, 1}
    assert [one["from_hook"] for one in it.truth["ranks"]] == ["yes", "yes"]
    assert of_rank(it, 1, "loss") == pytest.approx(it.truth["ranks"][1]["losses"])
    left = Path(f"/proc/{cluster.pid}/environ").read_bytes()
    assert b"HOLTER" not in left


def test_ray_without_a_training_loads_no_session(framework_python: Path, tmp_path: Path) -> None:
    script = "import sys, ray, ray.data, ray.tune\nprint('holter.recorder.session' in sys.modules)"
    surroundings = {**os.environ, "PYTHONPATH": str(BOOTSTRAP), "HOLTER_SPOOL": str(tmp_path)}
    done = subprocess.run(
        [framework_python, "-c", script], env=surroundings, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]
    assert list(tmp_path.iterdir()) == []
