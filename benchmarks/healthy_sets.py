"""What holter reports of TrainCheck's healthy trainings, with which its authors count false alarms.

    python benchmarks/healthy_sets.py WORKLOADS BENCHMARKS [--only PATTERN] [--into FOLDER] [--python PYTHON]

WORKLOADS and BENCHMARKS are clones of `OrderLab/TrainCheck-Evaluation-Workloads` (folder `fp_rate/workloads`)
and `OrderLab/TrainCheck-Benchmarks` (folder `false-positive`). Each job runs in a copy of its folder under
`holter run` with default options. `benchmarks/stand_ins` replaces TrainCheck itself and makes the data that a
job would download; `JOBS` lists what is changed for a CPU. `--python` names an interpreter that has torch,
torchvision, gymnasium, matplotlib, requests, transformers, datasets, accelerate.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from healthy_jobs import JOBS, Job
from machine import HERE, described, environment
from markdown_tables import row, table

LIMIT_S = 900


@dataclass(frozen=True)
class Told:
    """What holter says of a job."""

    steps: int
    warnings: list[str]
    notes: list[str]
    judged: int
    """The number of rules that had something to judge."""


def copied(job: Job, clones: dict[str, Path], folder: Path) -> Path:
    """Copy the job's folder, and change what its script needs."""
    at = folder / job.name.replace("/", "-")
    shutil.rmtree(at, ignore_errors=True)
    shutil.copytree(clones[job.set] / job.folder, at)
    for file in at.rglob("*.py"):
        text = new = file.read_text()
        for old, other in job.changes:
            new = re.sub(old, other, new, flags=re.MULTILINE)
        if new != text:
            file.write_text(new)
    return at


def run(job: Job, at: Path, python: str) -> Told | str:
    """Run a job and read what holter says; a text says why it failed."""
    paths = [str(HERE / "stand_ins"), environment()["PYTHONPATH"]]
    env = {**environment(), "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1", **job.env}
    if job.before:
        words = [python, *job.before]
        done = subprocess.run(
            words, cwd=at, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        if done.returncode:
            return done.stderr[-300:]
    words = [python, "-m", "holter"]
    try:
        done = subprocess.run(
            [*words, "run", "--job", "it", "--", python, *job.command],
            cwd=at, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    (at / "output.txt").write_text(done.stdout + done.stderr)
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr[-300:]}"
    shown = subprocess.run(
        [*words, "describe", "it", "--json"], cwd=at, env=env, capture_output=True, text=True, check=True
    )
    told = json.loads(shown.stdout)
    (at / "told.json").write_text(shown.stdout)
    issues = [issue for rule in told["rules"] for issue in rule["issues"]]
    warnings = [f"{one['rule']}: {one['summary']}" for one in issues if one["severity"] != "info"]
    notes = [f"{one['rule']}: {one['summary']}" for one in issues if one["severity"] == "info"]
    judged = sum(rule["coverage"]["evaluated"] > 0 for rule in told["rules"])
    return Told(told["steps"]["count"], warnings, notes, judged)


def main() -> None:
    """Run the jobs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", type=Path)
    parser.add_argument("benchmarks", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--into", type=Path)
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    clones = {
        "fp_rate": asked.workloads.resolve() / "fp_rate" / "workloads",
        "false-positive": asked.benchmarks.resolve() / "false-positive",
    }
    folder = (asked.into or Path(tempfile.mkdtemp(prefix="holter-healthy-"))).resolve()
    jobs = [job for job in JOBS if re.search(asked.only, job.name)]
    table("job", "command", "changed", "steps", "rules that judged", "warnings", "notes")
    warned = failed = 0
    for job in jobs:
        told = run(job, copied(job, clones, folder), asked.python)
        if isinstance(told, str):
            failed += 1
            cells: list[object] = ["", "", f"**failed: {told}**", ""]
        else:
            warned += bool(told.warnings)
            cells = [told.steps, told.judged, "; ".join(told.warnings) or "0", "; ".join(told.notes) or "0"]
        row(job.name, f"`{' '.join(job.command)}`", job.changed, *cells)
    print(f"\n{len(jobs)} jobs, {warned} with warnings, {failed} failed; {described()}")


if __name__ == "__main__":
    main()
