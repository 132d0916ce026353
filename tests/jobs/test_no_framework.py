"""`holter run` on programs without a known framework: what the card, the description and the pages say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from tests.jobs.starting import TRAININGS, Jobs, here

from holter.store.job import find
from holter.store.trial import Trial
from holter.views.document.python_profile import python_profile

RUNS_S = 13


@pytest.fixture(scope="module")
def simulation(tmp_path_factory):
    """Return a finished job of a NumPy program, and what the program measured itself."""
    script = str(TRAININGS / "no_framework.py")
    job = Jobs(tmp_path_factory.mktemp("simulation")).run(sys.executable, script, str(RUNS_S))
    return job, json.loads(job.stdout)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """Return a finished job of a compiled program, and what the program measured itself."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler is here to build a trainer")
    folder = tmp_path_factory.mktemp("trainer")
    program, data = folder / "trainer", folder / "data.bin"
    source = TRAININGS / "no_framework.cpp"
    subprocess.run([compiler, "-O2", "-pthread", "-o", program, source], check=True, timeout=120)
    data.write_bytes(os.urandom(1 << 20))
    job = Jobs(folder / "store").run(str(program), str(RUNS_S), str(data))
    return job, json.loads(job.stdout)


def test_the_card_leads_with_what_the_program_does(simulation):
    job, _ = simulation
    card = job.stderr[job.stderr.index("── holter") :].splitlines()
    # On a busy machine it gets a part of a core, and waits for more.
    said = rf"{os.path.basename(sys.executable)} no_framework\.py (computes on|gets only|uses only) [\d.]+ "
    assert re.match(said, card[1].strip())
    text = " ".join(line.strip() for line in card)
    assert "of the time in collide (no_framework.py:12)" in text
    assert "No training step was recorded" in text
    assert "holter.steps(batches)" in text


def test_functions_have_the_shares_that_the_program_measured(simulation):
    job, truth = simulation
    told = job.describe()["program"]
    shares = {one["name"]: one["pct"] for one in told["functions"]}
    whole = sum(truth[name] for name in ("collide", "gather", "wait"))
    assert shares["collide (no_framework.py:12)"] == pytest.approx(100 * truth["collide"] / whole, abs=12)
    assert shares["gather (no_framework.py:20)"] == pytest.approx(100 * truth["gather"] / whole, abs=12)
    # A script's own code is named with its line: here that of `time.sleep`.
    waits = sum(share for name, share in shares.items() if name.startswith("<module>"))
    assert waits == pytest.approx(100 * truth["wait"] / whole, abs=12)
    assert told["sampled_s"] == pytest.approx(truth["elapsed"], rel=0.25)


def test_the_cores_are_those_that_the_program_used(simulation):
    job, truth = simulation
    told = job.describe()["program"]
    assert told["cpu_s"] == pytest.approx(truth["cpu"], rel=0.25)
    assert told["cores_used"] == pytest.approx(truth["cpu"] / truth["elapsed"], rel=0.3)
    assert told["process_count"] == 1
    (process,) = told["processes"]
    assert process["name"] == told["name"] == f"{os.path.basename(sys.executable)} no_framework.py"
    assert process["memory_bytes"] > 5_000_000


def test_stacks_are_on_the_page_about_python(simulation):
    job, _ = simulation
    (profile,) = python_profile(Trial(find(str(job.store), job.job)))
    assert profile["profiler"] == "holter"
    assert profile["functions"][0]["name"].startswith(("collide", "<module>"))


def test_the_report_describes_the_program(simulation, tmp_path):
    job, _ = simulation
    here("report", job.job, "--store", str(job.store), "--output", str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text()
    assert "spends its time" in page
    assert "No steps were recorded. Estimated, not recorded" in page or "Steps cannot be estimated" in page


def test_a_compiled_program_is_described_without_functions(trainer):
    job, truth = trainer
    told = job.describe()["program"]
    assert told["name"] == "trainer"
    assert told["functions"] == []
    assert told["processes"][0]["read_bytes"] >= 0.8 * truth["steps"] * (1 << 20)
    assert re.match(r"trainer (computes on|gets only|uses only) [\d.]+ ", told["sentence"])
    assert "perf record" in job.stderr


@pytest.mark.parametrize("program", ["simulation", "trainer"])
def test_steps_are_estimated_only_near_the_truth_and_marked_as_such(program, request):
    job, truth = request.getfixturevalue(program)
    described = job.describe()
    assert described["steps"] is None
    found = described["program"]["estimated_steps"]
    if found is None:  # a busy machine: nothing repeats clearly
        assert "nothing repeats" not in job.stderr
        return
    true = truth["elapsed"] / truth["steps"]
    multiple = found["seconds"] / true
    assert multiple == pytest.approx(round(multiple), abs=0.2)
    assert round(multiple) >= 1
    assert "estimated from" in found["text"]
    assert "estimated" in job.stderr


def test_no_rule_takes_estimated_steps_for_steps(simulation):
    job, _ = simulation
    described = job.describe()
    assert described["breakdown"] is None
    assert described["ledger"] == []
    assert job.table("steps").rows == 0
    named = {rule["name"]: rule["status"] for rule in described["rules"]}
    assert named["StepOutlier"] != "IssuesFound"
