"""One job on several nodes: two agents on one machine, and torchrun with two nodes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.gateway import Gateway
from tests.jobs.starting import TRAININGS, environment, here, wait_for
from tests.ports import free_port

import holter as holter_package
from holter.store import job


def start(
    store: str, node: str, *command: str, options: tuple[str, ...] = (), **variables: str
) -> subprocess.Popen[str]:
    """Start `holter run` as one node."""
    words = ["run", "--store", store, "--job", "both", "--node", node, *options, "--", *command]
    return subprocess.Popen(
        [sys.executable, "-m", "holter", *words],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def torchrun(store: str, *words: str) -> list[subprocess.Popen[str]]:
    """Start a training of two nodes with a rank each."""
    port = str(free_port())
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    meeting = ["--master-addr", "127.0.0.1", "--master-port", port]
    script = [str(TRAININGS / "ddp.py"), *words]
    return [
        start(store, f"n{rank}", *launcher, "--node-rank", str(rank), *meeting, *script) for rank in (0, 1)
    ]


def finish(nodes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Wait for all; returns exit code and standard error of each."""
    try:
        said = [node.communicate(timeout=300)[1] for node in nodes]
    finally:
        for node in nodes:
            node.terminate()
    return [(node.returncode, text) for node, text in zip(nodes, said, strict=True)]


def described(store: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(here("describe", "both", "--store", store, "--json").stdout)
    return document


@pytest.mark.slow
def test_orders_reach_all_nodes_of_a_job_in_an_object_store(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**gateway.variables, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    store = gateway.bucket()
    nodes = torchrun(store, "--steps", "100000")
    wait_for(lambda: job.jobs(store))
    opened = holter_package.open(f"{store}/both")
    wait_for(lambda: len(set(opened.spans.select(where="step > 20").table["rank"])) == 2)
    here("configure", "both", "--interval", "200ms", "--store", store)
    told = described(store)
    assert (told["job"]["status"], told["ranks"]) == ("InProgress", [0, 1])

    def obeyed() -> list[str]:
        """Return which nodes have followed the order."""
        events = opened.events.table
        return sorted(
            events.where((events["kind"] == "control") & (events["name"] == "interval"))["node"].tolist()
        )

    wait_for(lambda: len(obeyed()) == 2)
    here("stop", "both", "--store", store)
    (_, first), (_, second) = finish(nodes)
    told = described(store)
    assert told["job"]["status"] == "Stopped"
    assert [(node["node"], node["ranks"], node["status"]) for node in told["nodes"]] == [
        ("n0", [0], "Stopped"),
        ("n1", [1], "Stopped"),
    ]
    assert obeyed() == ["n0", "n1"]
    clock = told["nodes"][1]["clock"]
    assert clock["against"] == "n0"
    # They are one machine: what seems to lie between them is noise.
    assert abs(clock["skew_ns"]) < 5_000_000 + clock["spread_ns"]
    assert told["cost"]["dropped"] == 0
    # One of them shows the card.
    assert sum("── holter" in text for text in (first, second)) == 1


@pytest.mark.slow
def test_the_node_that_failed_is_named(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    words = [sys.executable, str(TRAININGS / "ddp.py"), "--steps", "60", "--raise-on-rank", "1"]
    # As an operator of Kubernetes starts them, without a launcher.
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    ends = finish([start(store, f"n{rank}", *words, **world, RANK=str(rank)) for rank in (0, 1)])
    assert all(code != 0 for code, _ in ends)
    told = described(store)
    assert told["job"]["status"] == "Failed"
    failure = told["job"]["failure"]
    assert (failure["node"], failure["rank"]) == ("n1", 1)
    assert failure["exception"] == "ValueError: no such word"
    assert "(rank 1, node n1)" in told["job"]["headline"]


def test_completed_only_when_all_nodes_are_through(tmp_path: Path) -> None:
    store, join = str(tmp_path / "store"), ("--join",)

    def until(file: Path) -> tuple[str, ...]:
        return ("sh", "-c", f"while [ ! -e {file} ]; do sleep 0.1; done")

    first = start(store, "n0", *until(tmp_path / "one"), options=join)
    wait_for(lambda: job.jobs(store))
    folder = job.find(store, "both")
    second = start(store, "n1", *until(tmp_path / "other"), options=join)
    wait_for(lambda: len(folder.nodes()) == 2)
    (tmp_path / "one").touch()
    wait_for(lambda: folder.node("n0").get("status") == "Completed")
    assert folder.manifest()["status"] == "InProgress"
    in_the_end = threading.Timer(240, (tmp_path / "other").touch)
    in_the_end.start()
    assert first.stderr is not None
    assert any("waiting for node n1 to end" in line for line in first.stderr)
    assert not (tmp_path / "other").exists()
    in_the_end.cancel()
    (tmp_path / "other").touch()
    (code, _), (other_code, other) = finish([first, second])
    assert (code, other_code) == (0, 0)
    assert "node n1 of job both: Completed" in other
    nodes = folder.nodes()
    assert folder.manifest()["status"] == "Completed"
    assert folder.manifest()["end"] == max(facts["end"] for facts in nodes.values())


def test_a_name_of_another_launch_is_taken(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    job.create(store, "both", command=["true"], interval_ms=500, rules=[], now_ns=time.time_ns())
    ((code, said),) = finish([start(store, "n1", "true", options=("--join",))])
    assert code == 64
    assert "job 'both' exists" in said
    assert "it cannot be joined: it belongs to another launch" in said
    assert "needs --job NAME" in here("run", "--join", "--", "true", check=False).stderr
