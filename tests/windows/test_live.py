"""Windows in real trainings: from the start, opened from outside, by a rule, on one rank of two."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.jobs.starting import ROOT, Jobs, environment, holter

BASH = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGE = ROOT / "docs/how-to/profile-a-window.md"
LIVE = Path(__file__).with_name("live.py")


def events(finished, kind: str = "window") -> list[dict]:
    rows = [row for row in finished.table("events").to_rows() if row["kind"] == kind]
    return [{**row, "detail": json.loads(row["detail"])} for row in rows]


def steps_of(finished, table: str = "operators") -> list[int]:
    return sorted(set(np.asarray(finished.table(table)["step"]).tolist()))


class Running:
    """A job that runs until it is told that it is enough."""

    def __init__(self, folder: Path, *command: str, options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        words = ["run", "--store", "jobs", "--job", "long", *options, "--", *command]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holter", *words],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until(self, what: Callable[[], object], seconds: float = 180.0) -> float:
        """Wait for something; return how long it took."""
        began = time.monotonic()
        while not what():
            assert time.monotonic() - began < seconds, "it did not come"
            assert self.process.poll() is None, self.process.stdout.read()
            time.sleep(0.05)
        return time.monotonic() - began

    def table(self, name: str):
        from holter.job import open as open_job

        return open_job(str(self.folder / "jobs" / "long")).trial.table(name)

    def windows(self) -> list[dict]:
        try:
            rows = self.table("events").to_rows()
        except (OSError, LookupError):
            return []
        return [json.loads(row["detail"]) for row in rows if row["kind"] == "window"]

    def trained(self) -> bool:
        try:
            return len(self.table("spans")["step"]) > 100
        except (OSError, LookupError):
            return False

    def enough(self) -> None:
        (self.folder / "enough").touch()
        said, _ = self.process.communicate(timeout=180)
        assert self.process.returncode == 0, said


@pytest.fixture
def typed(tmp_path: Path) -> Callable[[str], str]:
    """Run shell lines in the folder, with `holter` and `python` as an activated environment has them."""
    (tmp_path / "bin").mkdir()
    for name, words in {"holter": f'"{sys.executable}" -m holter', "python": f'"{sys.executable}"'}.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    env = environment(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def run(script: str) -> str:
        words = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def run(tmp_path: Path):
    started: list[Running] = []

    def begin(*command: str, options: tuple[str, ...] = ("--no-rules",)) -> Running:
        # The look opens windows of its own; these tests count theirs.
        started.append(Running(tmp_path, *command, options=("--look", "never", *options)))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.terminate()
        one.process.wait(120)
        one.process.stdout.close()


@pytest.mark.slow
def test_windows_are_opened_from_outside_twice_with_different_profilers(run, typed, tmp_path: Path) -> None:
    running = run(sys.executable, str(LIVE), "100000")
    running.until(running.trained)
    asked = time.time()
    holter("profile", "long", "--count", "3", "--store", str(tmp_path / "jobs"))
    running.until(lambda: len(running.windows()) == 1)
    (first,) = running.windows()
    assert (first["profiler"], first["last_step"] - first["first_step"]) == ("operators", 3)
    # How long after that, says benchmarks/window_latency.py; this limit is for a machine that stands still.
    assert asked < first["begin"] / 1e9 < asked + 60
    words = ("--count", "2", "--python", "cprofile", "--timer", "off_cpu_time")
    told = holter("profile", "long", *words, "--store", str(tmp_path / "jobs"))
    assert "2 steps of python" in told.stdout
    running.until(lambda: len(running.windows()) == 2)
    _, page, *_ = BASH.findall(PAGE.read_text())
    said = typed(page.replace("long", "long --store jobs"))
    assert "3 steps of operators, from the next step on" in said
    assert said.endswith("profiling is off\n")
    running.enough()
    second, *others = running.windows()[1:]
    assert (second["profiler"], second["last_step"] - second["first_step"]) == ("python", 2)
    assert second["parameters"] == {"profiler": "cprofile", "timer": "off_cpu_time"}
    python = running.table("python_functions")
    assert set(np.asarray(python["step"]).tolist()) == set(range(second["first_step"], second["last_step"]))
    # The page's own windows may have been called off before they began.
    operators = [first, *(one for one in others if one["profiler"] == "operators" and "refused" not in one)]
    steps = {step for one in operators for step in range(one["first_step"], one["last_step"])}
    assert set(np.asarray(running.table("operators")["step"]).tolist()) == steps


@pytest.mark.slow
def test_the_page_as_written(typed, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LIVE.read_text())
    at_start, *_ = BASH.findall(PAGE.read_text())
    assert "profiler_start" not in typed(at_start), "torch's profiler prints into the training's output"
    (program,) = PYTHON.findall(PAGE.read_text())
    shown = typed(f"python - <<'END'\n{program}\nEND")
    assert "[60, 61, 62, 63, 64]" in shown
    assert "aten::" in shown


@pytest.mark.slow
def test_a_rule_opens_a_window(run) -> None:
    action = "start_profiling:severity=warning,steps=2"
    options = ("--no-rules", "--rule", "when:loss > 0", "--action", action)
    running = run(sys.executable, str(LIVE), "100000", options=options)
    running.until(running.windows)
    running.enough()
    (window,) = running.windows()
    assert window["last_step"] - window["first_step"] == 2
    assert window["rows"]["operators"] > 0


@pytest.mark.slow
def test_a_window_on_one_rank_of_two(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ("--no-rules", "--profile-steps", "20:25:rank=0")
    done = Jobs(tmp_path).run(*launch, str(LIVE), "40", options=options)
    assert done.code == 0, done.stderr
    table = done.table("operators")
    assert set(np.asarray(table["rank"]).tolist()) == {0}
    assert steps_of(done) == list(range(20, 25))
    assert any("allreduce" in str(name) or "all_reduce" in str(name) for name in table["name"])
    assert {row["rank"] for row in events(done)} == {0}
    ranks = set(np.asarray(done.table("spans")["rank"]).tolist())
    assert {0, 1} <= ranks
