"""What records Ray, without Ray: variables for a running cluster, trainings side by side, parts of a wait."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.recorder.reading import BOOTSTRAP

from holter.recorder.frameworks.ray.cluster import passed_on, watch
from holter.recorder.frameworks.ray.data import split
from holter.recorder.frameworks.ray.trials import claim
from holter.recorder.patches import Patches

OURS = {"HOLTER_SPOOL": "/spool", "HOLTER_SAVE": "losses", "HOME": "/home/ada"}


def test_workers_of_a_running_cluster_get_the_recorder():
    found = passed_on({}, OURS)["env_vars"]
    path = f"{BOOTSTRAP}:${{PYTHONPATH}}"
    assert found == {"HOLTER_SPOOL": "/spool", "HOLTER_SAVE": "losses", "PYTHONPATH": path}


def test_what_the_user_has_set_stays():
    given = {"env_vars": {"A": "1", "PYTHONPATH": "/mine", "HOLTER_SAVE": "weights"}, "pip": ["x"]}
    found = passed_on(given, OURS)
    assert found["pip"] == ["x"]
    assert found["env_vars"]["A"] == "1"
    assert found["env_vars"]["HOLTER_SAVE"] == "weights"
    assert found["env_vars"]["PYTHONPATH"] == f"{BOOTSTRAP}:/mine"
    assert given["env_vars"] == {"A": "1", "PYTHONPATH": "/mine", "HOLTER_SAVE": "weights"}


def test_ray_itself_appends_the_path_to_a_working_folder():
    assert passed_on({"working_dir": "gcs://x"}, OURS)["env_vars"]["PYTHONPATH"] == str(BOOTSTRAP)


class Job:
    """A job's configuration, as `ray.init` passes it on."""

    def __init__(self) -> None:
        self.runtime_env: dict[str, object] = {"env_vars": {"A": "1"}}

    def set_runtime_env(self, given: dict[str, object]) -> None:
        self.runtime_env = given


@pytest.mark.parametrize(
    ("mode", "head", "passed"), [("driver", False, True), ("driver", True, False), ("worker", False, False)]
)
def test_only_a_driver_that_connects_to_a_running_cluster_passes_it_on(monkeypatch, mode, head, passed):
    monkeypatch.setenv("HOLTER_SPOOL", "/spool")
    worker, patches, job = SimpleNamespace(SCRIPT_MODE="driver"), Patches(), Job()
    calls = []
    worker.connect = connect = lambda *args, **named: calls.append((args, named))
    watch(worker, patches)
    node = SimpleNamespace(head=head)
    worker.connect(node, "session", mode=mode, job_config=job, namespace="n")
    assert calls == [((node, "session", mode), {"job_config": job, "namespace": "n"})]
    assert ("HOLTER_SPOOL" in job.runtime_env["env_vars"]) is passed
    patches.undo()
    assert worker.connect is connect


def test_a_second_run_is_left_out_while_the_first_one_lives(tmp_path: Path):
    path = str(tmp_path / "run")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert claim(path, "a", other.pid) is None
        assert claim(path, "a", os.getpid()) is None
        assert claim(path, "b", os.getpid()) == "a"
        other.communicate(b"\n")
    assert claim(path, "b", os.getpid()) == "a"  # this process takes part in it


def test_a_run_after_the_first_one_is_recorded_but_a_second_trial_never(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        pass
    for name, expected in (("run", None), ("trial", "a")):
        path = str(tmp_path / name)
        assert claim(path, "a", other.pid, alone=name == "trial") is None
        assert claim(path, "b", os.getpid(), alone=name == "trial") == expected


class Stage(Enum):
    WAIT = "production_wait"
    FORMAT = "format"


def test_parts_of_a_wait_do_not_overlap():
    def span(begin: float, end: float) -> SimpleNamespace:
        return SimpleNamespace(start_s=begin, end_s=end)

    stages = [(Stage.FORMAT, [span(3.0, 9.0)]), (Stage.WAIT, [span(0.0, 2.0), span(2.0, 4.0)])]
    found = [(name, begin / 1e9, end / 1e9) for name, begin, end in split(stages, int(1e9), int(6e9))]
    assert found == [("production_wait", 1, 2), ("production_wait", 2, 4), ("format", 4, 6)]
    assert list(split(stages, int(10e9), int(11e9))) == []
