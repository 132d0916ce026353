"""The GitHub action: its steps use what exists, and its script compares jobs as `holter check` does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import told

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]


def test_steps_use_inputs_outputs_and_files_that_exist() -> None:
    text = (ROOT / "action.yml").read_text()
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == set(ACTION["inputs"])
    assert all("default" in one or one.get("required") for one in ACTION["inputs"].values())
    (check,) = [one for one in STEPS if one.get("id") == "check"]
    script = check["run"].strip('"').replace("$GITHUB_ACTION_PATH", str(ROOT))
    assert os.access(script, os.X_OK)
    written = set(re.findall(r"(?:'|\\n)(\w+)=%s", Path(script).read_text()))
    assert set(re.findall(r"steps\.check\.outputs\.(\w+)", text)) == written
    assert set(re.findall(r"\$\{?([A-Z_]+)", Path(script).read_text())) >= set(check["env"])
    for step in STEPS:
        # What others may write, such as names of jobs, comes through the environment, not in the command.
        assert "${{" not in step.get("run", "")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("action"))
    told("before", folder, ranks=2, cores=2, steps=100, samples=120)
    told("after", folder, ranks=2, cores=2, steps=100, samples=120)
    return folder


def compared(
    store: str, folder: Path, baseline: str, job: str, **env: str
) -> tuple[int, dict[str, str], str]:
    """Run the script; return its exit code, the outputs of the step, and the summary of the workflow."""
    where = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    summary, outputs = folder / "summary.md", folder / "outputs"
    more = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(outputs), "RUNNER_TEMP": str(folder)}
    done = subprocess.run(
        [str(ROOT / "scripts/github-check")],
        env={**os.environ, "PATH": where, "BASELINE": baseline, "JOB": job, "STORE": store, **more, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = outputs.read_text().splitlines() if outputs.exists() else []
    found = dict(line.split("=", 1) for line in lines)
    return done.returncode, found, summary.read_text() if summary.exists() else done.stderr


def test_a_faster_job_passes_with_a_report_and_a_comment(store: str, tmp_path: Path) -> None:
    code, found, summary = compared(store, tmp_path, "before", "after")
    assert (code, found["result"], found["failed"]) == (0, "pass", "false"), summary
    assert Path(found["report"]).read_text().startswith("<!doctype html>")
    assert Path(found["comment"]).read_text() == summary
    assert "step time: pass" in summary
    assert "<details>" in summary


def test_a_slower_job_fails_when_all_is_written(store: str, tmp_path: Path) -> None:
    code, found, summary = compared(store, tmp_path, "after", "before")
    assert (code, found["result"], found["failed"]) == (0, "regression", "true"), summary
    (tmp_path / "outputs").unlink()
    _, found, _ = compared(store, tmp_path, "after", "before", FAIL_ON="nothing")
    assert found["failed"] == "false"


def test_what_cannot_be_compared_fails_at_once(store: str, tmp_path: Path) -> None:
    assert compared(store, tmp_path, "before", "missing")[0] == 4
    assert compared(store, tmp_path, "before", "after", FAIL_ON="always")[0] == 2
