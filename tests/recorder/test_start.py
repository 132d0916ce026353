"""`holter.start` and `holter.stop`: a running process records itself, with a real agent and a real store."""

import subprocess
import sys

import pytest
from tests.recorder.reading import SOURCE, environment, pythons

READ = """
from holter.store import job
from holter.store.trial import Trial
folder = job.find("store", "mine")
spans = Trial(folder).table("spans")
print(folder.manifest()["status"], sorted(zip(spans["phase"].tolist(), spans["name"].tolist())))
"""


def script(tmp_path, code, python=sys.executable, **extra):
    env = environment(PYTHONPATH=SOURCE, **extra)
    return subprocess.run(
        [python, "-c", code],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("ending", ["holter.stop()", ""], ids=["stop", "exit"])
def test_what_is_recorded_between_start_and_stop_is_in_the_store(tmp_path, ending):
    code = f"""
import os, subprocess, sys
import holter
with holter.annotate("too early"): pass
holter.start(job="mine", store="store")
with holter.annotate("in the notebook"): pass
subprocess.run([sys.executable, "-c", "import holter\\nwith holter.annotate('in a child'): pass"], check=True)
holter.start()  # again: nothing happens
{ending}
if {bool(ending)}:
    with holter.annotate("too late"): pass
    assert "HOLTER_SPOOL" not in os.environ
    assert "bootstrap" not in os.environ.get("PYTHONPATH", "")
    holter.stop()  # again: nothing happens
print("done")
"""
    done = script(tmp_path, code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    kept = script(tmp_path, READ)
    assert kept.stdout == "Completed [('annotation', 'in a child'), ('annotation', 'in the notebook')]\n", (
        kept.stderr
    )


def test_agent_that_cannot_start_says_why_and_leaves_nothing(tmp_path):
    (tmp_path / "store").write_text("a file, not a folder")
    code = """
import os, holter
try:
    holter.start(job="mine", store="store")
except RuntimeError as error:
    print(error)
print("HOLTER_SPOOL" in os.environ)
with holter.annotate("a"): pass
"""
    done = script(tmp_path, code, TMPDIR=tmp_path)
    first, second = done.stdout.splitlines()
    assert "did not start" in first
    assert "store" in first
    assert (second, done.returncode) == ("False", 0), done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_unknown_configuration_names_what_is_known(tmp_path):
    done = script(tmp_path, "import holter; holter.start(config={'intervall': 100})")
    assert done.returncode == 1
    assert "'intervall' is not known here; known are interval_ms, save" in done.stderr.splitlines()[-1]


@pytest.mark.skipif("3.10" not in pythons(), reason="needs a Python 3.10 beside this one")
def test_python_too_old_for_the_agent_is_told_what_to_do(tmp_path):
    done = script(tmp_path, "import holter; holter.start()", python=pythons()["3.10"])
    assert done.stderr.splitlines()[-1].startswith(
        "RuntimeError: holter.start needs Python 3.11 or newer, this is 3.10"
    )
    assert list(tmp_path.iterdir()) == []


def test_disabled_start_does_nothing(tmp_path):
    done = script(tmp_path, "import holter; holter.start(); holter.stop()", HOLTER_DISABLE=1)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
