"""`holter attach` on trainings that were started without holter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import jsonschema
import pytest
from tests.jobs.starting import LAUNCH, PUBLISHED, TRAININGS, environment, here, holter

from holter.agent.supervision.outside import CannotAttach, target
from holter.job import open as open_job
from holter.store.job import find

SCRIPT = str(TRAININGS / "unrecorded.py")
WATCHED_S = 9


class Started:
    """A process that runs until the test ends it."""

    def __init__(self, *command: str, lines: int = 1) -> None:
        self.process = subprocess.Popen(
            command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.said = [self.process.stdout.readline() for _ in range(lines)]
        assert all(self.said), self.process.communicate()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)

    @property
    def pid(self) -> str:
        return str(self.process.pid)


def described(text: str) -> dict:
    found = json.loads(text)
    jsonschema.validate(found, json.loads(PUBLISHED.read_text()))
    return found


@pytest.fixture(scope="module")
def computing(tmp_path_factory):
    """Return the description, the card and the store of a training that was watched until Ctrl-C."""
    store = tmp_path_factory.mktemp("computing") / "jobs"
    words = [sys.executable, "-m", "holter", "attach"]
    with Started(sys.executable, SCRIPT, "600") as training:
        watching = subprocess.Popen(
            [*words, training.pid, "--store", str(store), "--job", "live", "--json"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stderr is not None
        first = watching.stderr.readline()
        again = here("attach", training.pid, "--store", str(store), "--seconds", "5", check=False)
        time.sleep(WATCHED_S)
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=120)
        assert watching.returncode == 0, err
        goes_on = training.process.poll() is None
    return described(out), first + err, store, goes_on, again


def test_ctrl_c_detaches_and_leaves_the_training_alone(computing):
    told, card, store, goes_on, _ = computing
    assert goes_on
    assert told["job"]["status"] == "Detached"
    assert told["job"]["exit_code"] is None
    assert told["job"]["headline"] is None
    assert "detached after" in card
    assert "internal error" not in card
    assert find(str(store), "live").manifest()["status"] == "Detached"


def test_parts_of_the_loop_come_from_stacks(computing):
    told, card, *_ = computing
    training = told["program"]["training"]
    shares = {one["part"]: one for one in training["parts"]}
    assert shares["forward"]["pct"] + shares["backward"]["pct"] > 70
    assert shares["backward"]["pct"] / shares["forward"]["pct"] == pytest.approx(2, rel=0.5)
    assert shares["forward"]["function"].startswith("Wait.forward (unrecorded.py:")
    assert shares["backward"]["where"].startswith("train (")
    assert f"unrecorded.py:{_line_of('loss.backward()')})" in shares["backward"]["where"]
    assert told["verdict"]["suspect"] in ("healthy", "inconclusive")
    assert "backward" in told["verdict"]["sentence"].lower()
    assert told["steps"] is None
    assert told["program"]["attached"]
    assert "holter run" in card


def test_the_machine_and_the_stacks_are_recorded(computing):
    _, _, store, *_ = computing
    job = open_job(str(store / "live"))
    assert {"cpu.util", "proc.cpu"} & set(job.samples.table["metric"].tolist())
    stacks = job.table("python_stacks").table["stack"].tolist()
    assert all(one.startswith("process ") for one in stacks)
    assert any("decode (" in one or "train (" in one for one in stacks)


def test_a_process_that_is_recorded_already_is_refused(computing):
    *_, again = computing
    assert again.returncode == 64
    assert "is recorded already, as job live" in again.stderr


def test_ranks_below_a_launcher_wait_for_a_slow_dataset(tmp_path):
    with Started(*LAUNCH, SCRIPT, "600", "0.002", lines=2) as launcher:
        words = ("attach", launcher.pid, "--store", str(tmp_path / "jobs"), "--seconds", "8", "--json")
        told = described(holter(*words).stdout)
        assert launcher.process.poll() is None
        launcher.process.send_signal(signal.SIGTERM)
    assert told["program"]["training"]["processes"] == 2
    assert told["verdict"]["suspect"] == "data_pipeline", told["verdict"]
    assert "Images.decode (" in told["verdict"]["sentence"] or "decode (" in told["verdict"]["sentence"]
    assert "num_workers" in told["verdict"]["advice"][0]["text"]
    stacks = open_job(str(tmp_path / "jobs" / told["job"]["name"])).table("python_stacks").table
    assert {0, 1} <= set(stacks["rank"].tolist())


def test_a_compiled_program_is_recorded_until_it_ends(tmp_path):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as waiting:
        words = ["attach", str(waiting.pid), "--store", str(tmp_path / "jobs"), "--json"]
        with subprocess.Popen(
            [sys.executable, "-m", "holter", *words],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as watching:
            assert "recording process" in watching.stderr.readline()
            time.sleep(8)
            waiting.stdin.close()
            out, err = watching.communicate(timeout=120)
    told = described(out)
    assert told["job"]["status"] == "Ended"
    assert told["job"]["exit_code"] is None
    assert "exit code unknown" in err
    assert told["program"]["name"] == "cat"
    assert told["program"]["functions"] == []
    assert told["program"]["training"] is None


def test_refusals_name_the_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gone = subprocess.Popen(["true"])
    gone.wait()
    for given, said in (
        (str(gone.pid), "there is no process"),
        ("train.py", "is not the number of a process"),
        (str(os.getpid()), "belongs to holter itself"),
    ):
        refused = here("attach", given, check=False)
        assert refused.returncode == 64
        assert said in refused.stderr
    assert not list(tmp_path.iterdir())


def test_a_process_of_another_user_is_refused():
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)  # nobody
    try:
        with pytest.raises(
            CannotAttach, match=r"belongs to root, and you are .* sudo -u root holter attach 1"
        ):
            target(1)
    finally:
        os.seteuid(me)


def _line_of(text: str) -> int:
    lines = (TRAININGS / "unrecorded.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)
