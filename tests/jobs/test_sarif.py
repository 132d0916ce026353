"""Slow lines of a real training as SARIF."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.jobs.starting import TRAININGS, holter


def test_a_healthy_job_has_a_log_without_results(tmp_path: Path) -> None:
    (tmp_path / "checkout").mkdir()
    words = ["--store", str(tmp_path / "store"), "--job", "it"]
    holter("run", *words, "--", sys.executable, "-c", "pass")
    assert exported(tmp_path / "checkout") == {}
    (tmp_path / "store/it/job.json").write_text("{")
    words = ["export", "it", "--format", "sarif", "-o", "x", "--store", "../store"]
    refused = holter(*words, cwd=tmp_path / "checkout", check=False)
    assert (refused.returncode, "job.json cannot be read" in refused.stderr) == (64, True), refused.stderr


def exported(folder: Path, *words: str) -> dict[str, Any]:
    command = ["export", "it", "--format", "sarif", "-o", "it.sarif", "--force", "--store", "../store"]
    done = holter(*command, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((folder / "it.sarif").read_text())["runs"]
    assert {one["ruleId"] for one in run["results"]} == {one["id"] for one in run["tool"]["driver"]["rules"]}
    assert all(one["level"] in ("note", "warning", "error") for one in run["results"])
    return {one["ruleId"]: one for one in run["results"]}


def test_a_slow_line_is_shown_in_its_file(tmp_path: Path) -> None:
    source = tmp_path / "checkout/src"
    source.mkdir(parents=True)
    script = Path(shutil.copy(TRAININGS / "own_code.py", source))
    words = ["run", "--store", str(tmp_path / "store"), "--job", "it", "--no-rules", "--"]
    holter(*words, sys.executable, str(script), "stream", cwd=tmp_path)
    slow = exported(source.parent)["slow-data-loading"]
    assert slow["message"]["text"].startswith("stream takes 9"), slow
    place = slow["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/own_code.py"
    line = script.read_text().splitlines()[place["region"]["startLine"] - 1]
    assert "time.sleep" in line
    (source.parent / "again").mkdir()
    shutil.copy(script, source.parent / "again")
    assert "locations" not in exported(source.parent)["slow-data-loading"], "two files have this name"
    words = ["export", "it", "--format", "sarif", "-o", "x", "--rank", "0", "--store", "../store"]
    refused = holter(*words, cwd=source.parent, check=False)
    assert (refused.returncode, "describes the whole job" in refused.stderr) == (64, True), refused.stderr
