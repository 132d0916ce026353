"""`holter run --to` with W&B, MLflow and Trackio, without a network: their own runs get the verdict."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parents[2] / "src")
TRAININGS = Path(__file__).parent / "trainings"
pytestmark = pytest.mark.framework("trackers")


@pytest.fixture(scope="module")
def sent(framework_python, tmp_path_factory):
    """Return the folder of a training that logs to three trackers, and what holter said."""
    folder = tmp_path_factory.mktemp("trackers")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLTER_", "WANDB_"))}
    environment = {
        **kept,
        "PYTHONPATH": SOURCE,
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": str(folder / "mlruns"),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "TRACKIO_DIR": str(folder / "trackio"),
        "HF_HOME": str(folder / "hf"),
    }
    words = [framework_python, "-m", "holter", "run", "--job", "tracked"]
    words += ["--to", "wandb", "--to", "mlflow", "--to", "trackio"]
    done = subprocess.run(
        [*words, "--", framework_python, TRAININGS / "tracked.py"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stderr, environment, json.loads((folder / "runs.json").read_text())


def asked(sent, framework_python, program):
    """Run a program in the trackers' environment and return the JSON that it prints last."""
    folder, _, environment, _ = sent
    done = subprocess.run(
        [framework_python, "-c", program],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_no_tracker_refuses(sent):
    _, said, *_ = sent
    for name in ("wandb", "mlflow", "trackio"):
        assert f"sent to {name}:" in said
    assert "did not take" not in said


def test_the_run_of_mlflow_has_numbers_tags_and_the_card(sent, framework_python):
    run = sent[3]["mlflow"]
    found = asked(
        sent,
        framework_python,
        "import json; from mlflow import MlflowClient; c = MlflowClient();"
        f"r = c.get_run({run!r}); n = len(c.get_metric_history({run!r}, 'holter/step_p50_ms'));"
        f"print(json.dumps([r.data.metrics, r.data.tags, n, r.info.status,"
        f" [f.path for f in c.list_artifacts({run!r}, 'holter')]]))",
    )
    metrics, tags, points, status, files = found
    assert metrics["loss"] == 1.0
    assert metrics["holter/summary/steps"] == pytest.approx(120, abs=3)
    assert points >= 1
    assert tags["holter.verdict"]
    assert "holter describe" in tags["holter.link"]
    assert status == "FINISHED"
    assert files == ["holter/verdict.md"]


def test_the_run_of_trackio_has_numbers_and_the_card(sent, framework_python):
    found = asked(
        sent,
        framework_python,
        "import json; from trackio.sqlite_storage import SQLiteStorage as S;"
        "runs = S.get_runs('tracked');"
        "print(json.dumps([runs, S.get_logs('tracked', runs[0])], default=str))",
    )
    runs, rows = found
    assert len(runs) == 1
    assert any("loss" in row for row in rows)
    assert any("holter/step_p50_ms" in row for row in rows)
    assert any("holter/summary/steps" in row and "holter/verdict" in row for row in rows)


def test_the_run_of_wandb_is_opened_again_under_its_id(sent):
    folder, _, _, runs = sent
    made = sorted((folder / "wandb").glob(f"offline-run-*-{runs['wandb']}"))
    assert len(made) == 2, list((folder / "wandb").iterdir())
    written = b"".join(path.read_bytes() for path in made[1].glob("*.wandb"))
    for text in (b"holter/summary/steps", b"holter/verdict", b"holter/step_p50_ms", b"tracked-project"):
        assert text in written
