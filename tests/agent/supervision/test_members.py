"""Who may join a job, and what the end of all its nodes is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holter.agent.supervision.launch import Launch
from holter.agent.supervision.members import STALE_S, CannotJoin, Member, enter, join, together
from holter.agent.supervision.outcome import Outcome
from holter.store import job

LAUNCH = Launch("torchrun none@a:1", 2)
NOW = 10**18


@pytest.fixture
def first(tmp_path: Path) -> Member:
    """The node that made the job."""
    folder = job.create(
        str(tmp_path),
        "a",
        command=["true"],
        interval_ms=500,
        rules=[],
        now_ns=NOW,
        launch={"id": LAUNCH.id, "nodes": LAUNCH.nodes},
    )
    return enter(folder, "n0", named=True, creator=True, now_ns=NOW)


def joined(tmp_path: Path, node: str = "n1", *, launch: Launch = LAUNCH, after_s: float = 1.0) -> Member:
    return join(str(tmp_path), "a", launch, node, named=True, now_ns=NOW + int(after_s * 1e9))


def ended(status: str = "Completed", *, at: int = NOW + 5, **more: Any) -> Outcome:
    settings = {"exit_code": 0 if status == "Completed" else 1, "signal": None, "failure": None}
    return Outcome(**{**settings, **more}, status=status, started=NOW, ended=at)


def test_who_may_not_join(tmp_path: Path, first: Member) -> None:
    with pytest.raises(CannotJoin, match="another launch"):
        joined(tmp_path, launch=Launch("torchrun none@b:1", 2))
    with pytest.raises(CannotJoin, match="has a node 'n0' already; name this one with --node"):
        joined(tmp_path, "n0")
    with pytest.raises(CannotJoin, match="its nodes are silent for 5 min"):
        joined(tmp_path, after_s=STALE_S + 1)
    assert sorted(first.folder.nodes()) == ["n0"]
    first.end(ended())
    assert first.close() == []
    with pytest.raises(CannotJoin, match=r"it is over \(Completed\)"):
        joined(tmp_path)
    with pytest.raises(CannotJoin, match="no job 'b'"):
        join(str(tmp_path), "b", LAUNCH, "n1", named=True, now_ns=NOW)


def test_a_job_without_a_launch_is_not_joined(tmp_path: Path) -> None:
    job.create(str(tmp_path), "a", command=["true"], interval_ms=500, rules=[], now_ns=NOW)
    with pytest.raises(CannotJoin, match="another launch"):
        joined(tmp_path)


def test_two_agents_on_one_machine_get_two_names(tmp_path: Path, first: Member) -> None:
    member = join(str(tmp_path), "a", LAUNCH, "n0", named=False, now_ns=NOW)
    assert (member.node, member.creator) == ("n0-2", False)
    assert sorted(first.folder.nodes()) == ["n0", "n0-2"]


def test_the_job_ends_when_the_last_node_does(tmp_path: Path, first: Member) -> None:
    second = joined(tmp_path)
    second.end(ended(at=NOW + 7))
    assert second.close() == ["n0"]
    assert first.folder.manifest()["status"] == "InProgress"
    first.end(ended(at=NOW + 5))
    assert first.wait("Completed", lambda _: None) is True
    manifest = first.folder.manifest()
    assert (manifest["status"], manifest["end"], manifest["exit_code"]) == ("Completed", NOW + 7, 0)
    assert second.wait("Completed", lambda _: None) is False


def test_the_last_node_judges_when_the_first_did_not_wait(tmp_path: Path, first: Member) -> None:
    second = joined(tmp_path)
    first.end(ended())
    # Without an entry in WAITS_S nobody waits.
    assert first.wait("Unknown", lambda _: None) is False
    second.end(ended())
    assert second.wait("Completed", lambda _: None) is True
    assert first.folder.manifest()["status"] == "Completed"


def test_a_node_that_says_nothing_more_is_lost(tmp_path: Path, first: Member) -> None:
    joined(tmp_path)
    first.end(ended())
    clock = iter([0.0, 29.0, 31.0])
    assert first.close(now=lambda: next(clock)) == ["n1"]
    assert first.close(now=lambda: next(clock)) == ["n1"]
    assert first.close(now=lambda: next(clock)) == []
    manifest = first.folder.manifest()
    assert (manifest["status"], manifest["failure"]["kind"]) == ("Failed", "lost")
    assert manifest["failure"]["node"] == "n1"


def test_what_went_wrong_first_decides(tmp_path: Path, first: Member) -> None:
    second = joined(tmp_path)
    reset = {"kind": "exception", "exception": "RuntimeError: Connection reset by peer", "rank": 0}
    cause = {"kind": "exception", "exception": "ValueError: no such word", "rank": 1}
    # The victim's clock, or its exit, may be ahead of the culprit's.
    first.end(ended("Failed", at=NOW + 1, failure=reset))
    second.end(ended("Failed", at=NOW + 9, failure=cause, exit_code=3))
    assert first.close() == []
    manifest = first.folder.manifest()
    assert manifest["failure"] == {**cause, "node": "n1"}
    assert (manifest["exit_code"], manifest["end"]) == (3, NOW + 9)


def test_a_stopped_node_among_completed_ones() -> None:
    nodes = {
        "a": {"status": "Completed", "start": 1, "end": 5, "exit_code": 0},
        "b": {"status": "Stopped", "start": 2, "end": 6, "exit_code": 143, "signal": None, "failure": None},
    }
    expected = {"status": "Stopped", "start": 1, "end": 6, "exit_code": 143, "signal": None, "failure": None}
    assert together(nodes) == expected
