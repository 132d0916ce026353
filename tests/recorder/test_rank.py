"""The rank of a process, as its launcher says it."""

from __future__ import annotations

import json

import pytest

from holter.recorder.rank import from_environment


def tasks(kind: str, index: int, **cluster: int) -> str:
    hosts = {name: [f"{name}-{at}:1" for at in range(count)] for name, count in cluster.items()}
    return json.dumps({"cluster": hosts, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("text", "rank", "size"),
    [
        (tasks("worker", 1, worker=2), 1, 2),
        (tasks("chief", 0, chief=1, worker=3), 0, 4),
        (tasks("worker", 2, worker=3, chief=1), 3, 4),
        (tasks("evaluator", 0, chief=1, worker=3), None, None),
        (tasks("ps", 0, chief=1, worker=1, ps=2), None, None),
        (json.dumps({"task": {"type": "worker", "index": 0}}), None, None),
        ("{", None, None),
        ("[]", None, None),
    ],
)
def test_tf_config(text: str, rank: int | None, size: int | None) -> None:
    assert from_environment({"TF_CONFIG": text}) == {"rank": rank, "local_rank": None, "world_size": size}


def test_a_launcher_says_more_than_tf_config() -> None:
    told = from_environment({"TF_CONFIG": tasks("worker", 1, worker=2), "RANK": "0", "WORLD_SIZE": "8"})
    assert (told["rank"], told["world_size"]) == (0, 8)
