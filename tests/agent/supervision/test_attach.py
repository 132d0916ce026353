"""A process that asked to be recorded itself: the agent attaches, follows it and ends with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.agent.conftest import SOURCE, until

from holter.store.job import find, jobs
from holter.store.trial import Trial


@pytest.fixture
def environment():
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


SCRIPT = """
import holter, sys, time
holter.start(job="inside", store={store!r})
for step in range({steps}):
    with holter.step():
        time.sleep(0.005)
{then}
"""


def run(tmp_path, environment, then="holter.stop()", steps=50, **options):
    code = SCRIPT.format(store=str(tmp_path / "store"), then=then, steps=steps)
    return subprocess.run([sys.executable, "-c", code], env=environment, timeout=180, check=False, **options)


def manifest(tmp_path) -> dict:
    return find(str(tmp_path / "store"), "inside").manifest()


def test_a_script_records_itself(tmp_path, environment):
    assert run(tmp_path, environment).returncode == 0
    found = manifest(tmp_path)
    assert found["status"] == "Completed"
    assert found["failure"] is None
    assert found["command"][0] == sys.executable
    trial = Trial(find(str(tmp_path / "store"), "inside"))
    assert len(trial.sql("select * from spans where phase = 'step'")) == 50
    assert trial.sql("select count(*) n from samples")["n"][0] > 0


def test_a_script_that_goes_on_after_stop_is_recorded_until_then(tmp_path, environment):
    assert run(tmp_path, environment, f"holter.stop()\nopen('{tmp_path}/after', 'w')").returncode == 0
    assert (tmp_path / "after").exists()
    assert manifest(tmp_path)["status"] == "Completed"


def test_an_exception_fails_the_job(tmp_path, environment):
    assert (
        run(tmp_path, environment, "raise ValueError('no labels')", stderr=subprocess.DEVNULL).returncode == 1
    )
    until(lambda: manifest(tmp_path)["status"] != "InProgress")
    found = manifest(tmp_path)
    assert found["status"] == "Failed"
    assert found["failure"]["exception"] == "ValueError: no labels"


def test_a_process_that_is_killed_fails_the_job_too(tmp_path, environment):
    run(tmp_path, environment, "import os; os.kill(os.getpid(), 9)")
    until(lambda: manifest(tmp_path)["status"] != "InProgress")
    found = manifest(tmp_path)
    assert found["status"] == "Failed"
    assert (found["failure"]["kind"], found["failure"]["rank"]) == ("lost", 0)
    assert found["end"] > found["start"]


def test_stop_on_request(tmp_path, environment):
    code = SCRIPT.format(store=str(tmp_path / "store"), then="", steps=100_000)
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    until(lambda: [job for job in jobs(str(tmp_path / "store")) if job.nodes()])
    find(str(tmp_path / "store"), "inside").order(stop={})
    assert process.wait(120) == -15
    until(lambda: manifest(tmp_path)["status"] == "Stopped")


def test_sigterm_ends_the_agent_and_not_the_process(tmp_path, environment):
    spool = tmp_path / "spool"
    spool.mkdir()
    process = subprocess.Popen(["sleep", "600"])
    options = ["--store", str(tmp_path / "store"), "--attach", str(process.pid), "--spool", str(spool)]
    agent = subprocess.Popen([sys.executable, "-m", "holter.agent", *options], env=environment)
    until((spool / "agent.ready").exists)
    agent.terminate()
    assert agent.wait(120) == 0
    assert process.poll() is None
    process.kill()
    process.wait()
    (job,) = jobs(str(tmp_path / "store"))
    assert job.name.startswith("python-")
    assert job.manifest()["status"] == "Completed"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--interval", "300"], "300 ms is not possible"),
        (["--spool", "/proc/nowhere"], "is not a directory"),
        (["--attach", "4000000"], "no process 4000000"),
        (["--job", "a/b"], "a/b"),
        (["--store", "/proc/nowhere"], "cannot be written"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(tmp_path, environment, options, says):
    basis = ["--store", str(tmp_path / "s"), "--attach", str(os.getpid()), "--spool", str(tmp_path)]
    words = [sys.executable, "-m", "holter.agent", *basis, *options]
    found = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 64
    assert says in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_the_interval_of_a_config_file(tmp_path, environment):
    (tmp_path / "holter.toml").write_text('interval = "1s"\n')
    spool = tmp_path / "spool"
    spool.mkdir()
    process = subprocess.Popen(["sleep", "600"])
    options = ["--store", str(tmp_path / "store"), "--attach", str(process.pid), "--spool", str(spool)]
    options += ["--config", str(tmp_path / "holter.toml"), "--job", "j"]
    agent = subprocess.Popen([sys.executable, "-m", "holter.agent", *options], env=environment)
    until((spool / "agent.ready").exists)
    process.kill()
    process.wait()
    assert agent.wait(120) == 0
    assert json.loads((tmp_path / "store/j/job.json").read_text())["interval_ms"] == 1000
