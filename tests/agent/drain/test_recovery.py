"""What an agent that was killed left in its spool comes into the store: every record, each once."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.conftest import until

from holter.agent.drain.recovery import recover
from holter.agent.supervision.ownership import SpoolBusy, owner_of
from holter.cli import main

TRAINING = """
import holter, os, sys, time
for step in range({steps}):
    if step > {told} and os.path.exists({release!r}):
        break
    with holter.step():
        time.sleep(0.001)
        holter.log(loss=1.0 / (step + 1))
    if step == {told}:
        open({reached!r}, "w").write(str(os.getpid()))
open({reached!r}, "w").write(str(step))
"""


def said(*words: str) -> tuple[int, str, str]:
    """Run one holter command in this process; returns its exit code, output and messages."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = main(list(words))
    return code, out.getvalue(), " ".join(err.getvalue().split())


class Killed:
    """A training whose agent can be killed."""

    def __init__(self, start, tmp_path: Path, *, steps=3000, told=1500, **popen):
        self.reached, self.parent = tmp_path / "reached", tmp_path / "spools"
        self.parent.mkdir()
        code = TRAINING.format(
            steps=steps, told=told, reached=str(self.reached), release=str(tmp_path / "release")
        )
        self.run = start(
            sys.executable,
            "-c",
            code,
            options={"spool_parent": str(self.parent)},
            start_new_session=True,
            **popen,
        )
        until(lambda: self.reached.exists() and self.reached.read_text(), 30)
        self.trainer = int(self.reached.read_text())

    @property
    def spool(self) -> Path:
        (found,) = self.parent.iterdir()
        return found

    @property
    def store(self) -> str:
        return str(self.run.store)

    def kill(self, *, group: bool = False) -> None:
        (os.killpg if group else os.kill)(self.run.process.pid, signal.SIGKILL)
        self.run.wait()

    def end_of_training(self) -> None:
        until(lambda: not Path(f"/proc/{self.trainer}").exists())

    def steps(self) -> list[int]:
        spans = self.run.trial.sql("select step from spans where phase = 'step' order by step")
        return spans["step"].tolist()

    def losses(self) -> list[int]:
        return self.run.trial.sql("select step from scalars where name = 'loss' order by step")[
            "step"
        ].tolist()


def test_a_training_that_outlives_its_agent_is_in_the_store_as_a_whole(start, tmp_path):
    job = Killed(start, tmp_path, told=1500, steps=10**6)
    until(lambda: job.run.rows("spans"))  # a part of it is stored already
    job.kill()
    code, _, told = said("describe", "job", "--store", job.store)
    assert code == 0
    assert f"its agent is gone, but the training still runs (process {job.trainer})" in told
    assert job.run.folder.manifest()["status"] == "InProgress"
    (tmp_path / "release").touch()
    job.end_of_training()
    steps = int(job.reached.read_text())
    code, out, told = said("jobs", "--store", job.store)
    assert code == 0
    assert "Completed" in out
    assert "the agent of job job was killed" in told
    assert job.steps() == list(range(steps))
    assert job.losses() == list(range(steps))
    manifest = job.run.folder.manifest()
    assert (manifest["status"], manifest["exit_code"]) == ("Completed", None)
    assert manifest["agent_killed"]["pid"] == job.run.process.pid
    assert manifest["verdict"]["sentence"]
    (fault,) = job.run.events("fault")
    assert "was killed" in fault["detail"]["error"]
    assert "samples" in fault["detail"]["error"]
    assert not list(job.parent.iterdir())


def test_a_group_that_is_killed_loses_no_step(start, tmp_path):
    job = Killed(start, tmp_path, told=1500, steps=10**6)
    job.kill(group=True)
    job.end_of_training()
    last = max(int(head["step"]) for head in heads(job.spool))
    code, out, _ = said("recover", "job", "--store", job.store)
    assert code == 0
    assert "The agent was killed in step" in " ".join(out.split())
    steps = job.steps()
    assert steps == list(range(len(steps)))
    assert len(steps) >= last >= 1500
    manifest = job.run.folder.manifest()
    assert (manifest["status"], manifest["failure"]["kind"]) == ("Failed", "agent killed")
    assert not list(job.parent.iterdir())


def heads(spool: Path) -> list[dict]:
    from holter.agent.drain.heads import read_head

    return [{"step": head.step} for path in spool.glob("*.head") if (head := read_head(path))]


@pytest.fixture
def dead(start, tmp_path) -> Killed:
    """A job of 2,000 steps whose agent was killed while most of them were in the spool only."""
    job = Killed(start, tmp_path, told=0, steps=2000)
    job.kill()
    job.end_of_training()
    return job


def test_a_recovery_that_stops_halfway_goes_on_without_doubles(dead, monkeypatch):
    owner, folder = owner_of(dead.spool), dead.run.folder
    assert owner is not None

    def stop(_outcome: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        recover(dead.spool, owner, folder, stop)
    assert dead.steps() == list(range(2000))
    again = recover(dead.spool, owner, folder)
    assert again.rows == {}
    assert dead.steps() == list(range(2000))
    assert len(dead.run.events("end")) == 1
    assert not list(dead.parent.iterdir())


def test_two_commands_at_once_do_not_drain_twice(dead):
    words = [sys.executable, "-m", "holter", "recover", "job", "--store", dead.store, "--json"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    told = [process.communicate(timeout=180) for process in both]
    assert sorted(process.returncode for process in both)[0] == 0, told
    assert dead.steps() == list(range(2000))


def test_a_living_agent_is_left_alone(start, tmp_path):
    job = Killed(start, tmp_path, told=10, steps=1500)
    until(lambda: job.run.folder.node("node").get("spool"))
    assert job.run.folder.node("node")["spool"]["path"] == str(job.spool)
    owner = owner_of(job.spool)
    with pytest.raises(SpoolBusy, match="runs"):
        recover(job.spool, owner, job.run.folder)
    code, _, told = said("describe", "job", "--store", job.store)
    assert (code, told) == (0, "")
    assert said("recover", "job", "--store", job.store)[0] == 5
    assert job.run.wait() == 0
    assert job.steps() == list(range(1500))
    assert not list(job.parent.iterdir())


def test_a_store_that_is_away_keeps_the_spool_and_says_so(dead, tmp_path):
    away = tmp_path / "away"
    shutil.move(dead.store, away)
    Path(dead.store).write_text("a file in the store's place")
    code, _, _ = said("recover", str(dead.spool))
    assert code == 65
    assert dead.spool.is_dir()
    Path(dead.store).unlink()
    shutil.move(away, dead.store)
    code, out, _ = said("recover", str(dead.spool), "--json")
    assert code == 0
    assert json.loads(out)["spools"][0]["rows"]["spans"] > 0
    assert dead.steps() == list(range(2000))


def test_a_spool_can_be_discarded(dead):
    shutil.rmtree(dead.store)
    code, out, _ = said("recover", str(dead.spool))
    assert code == 65
    assert "was it deleted" in out
    assert said("recover", str(dead.spool), "--discard")[0] == 0
    assert not list(dead.parent.iterdir())


def test_a_manifest_cannot_name_a_folder_to_delete(dead, tmp_path):
    victim = tmp_path / "holter-victim"
    victim.mkdir(mode=0o700)
    shutil.copy(dead.spool / "agent.json", victim)
    told = json.loads((victim / "agent.json").read_text())
    (victim / "agent.json").write_text(json.dumps({**told, "job": str(tmp_path / "other" / "job")}))
    facts = dead.run.folder.node("node")
    dead.run.folder.write_node("node", {**facts, "spool": {**facts["spool"], "path": str(victim)}})
    said("describe", "job", "--store", dead.store)
    assert victim.is_dir()
    outside = tmp_path / "holter-plain"
    outside.mkdir(mode=0o755)
    assert owner_of(outside) is None


def test_a_store_deleted_during_the_run_leaves_the_spool(start, tmp_path):
    job = Killed(start, tmp_path, told=200, steps=1500)
    shutil.rmtree(job.store)
    assert job.run.wait() == 0
    assert job.run.outcome["spool"] == str(job.spool)
    assert job.run.outcome["unstored"] >= 1500
    assert owner_of(job.spool).ended["status"] == "Completed"


def test_a_store_that_was_away_at_the_end_gets_the_records_and_the_end_that_the_agent_saw(start, tmp_path):
    job = Killed(start, tmp_path, told=200, steps=1500)
    away = tmp_path / "away"
    shutil.move(job.store, away)
    assert job.run.wait() == 0
    shutil.move(away, job.store)
    code, _, told = said("jobs", "--store", job.store)
    assert code == 0
    assert "could not store all records" in told
    assert job.steps() == list(range(1500))
    manifest = job.run.folder.manifest()
    assert (manifest["status"], manifest["exit_code"]) == ("Completed", 0)
    assert "agent_killed" not in manifest
    assert not list(job.parent.iterdir())


@pytest.fixture
def small_disk(tmp_path):
    """Mount a small file system where the first store of `start` will lie."""
    disk = tmp_path / "store0"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "holter-test", str(disk)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))


def remount(disk: Path, mode: str) -> None:
    words = ["mount", "-o", f"remount,{mode}", str(disk)]
    # The agent may have a file open for a moment.
    until(lambda: subprocess.run(words, capture_output=True, check=False).returncode == 0, 30)


@pytest.mark.parametrize("state", ["full", "read-only"])
def test_a_store_that_cannot_be_written_keeps_the_spool_until_it_can(small_disk, start, tmp_path, state):
    job = Killed(start, tmp_path, told=200, steps=1500)
    fill(small_disk) if state == "full" else remount(small_disk, "ro")
    assert job.run.wait() == 0
    assert job.run.outcome["spool"] == str(job.spool)
    assert job.run.outcome["unstored"] > 0
    code, out, _ = said("recover", str(job.spool))
    assert code == 65
    assert str(job.spool) in out
    assert job.spool.is_dir()
    (small_disk / "filler").unlink() if state == "full" else remount(small_disk, "rw")
    assert said("recover", str(job.spool))[0] == 0
    assert job.steps() == list(range(1500))
    assert job.run.folder.manifest()["status"] == "Completed"
    assert not list(job.parent.iterdir())
