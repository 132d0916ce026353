"""Which part of a distributed tensor a rank holds, as its mesh and its placements say."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.cli.conftest import SOURCE

pytest.importorskip("torch")

SCRIPT = """
import json, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from holter.recorder.frameworks.pytorch.tensors.names import part_of

dist.init_process_group("fake", rank=int(sys.argv[1]), world_size=4, store=FakeStore())
mesh = init_device_mesh("cpu", (2, 2))
each = {
    "hybrid": [Replicate(), Shard(0)],
    "both": [Shard(0), Shard(1)],
    "whole": [Replicate(), Replicate()],
    "sums": [Partial(), Shard(0)],
}
found = {
    name: part_of(DTensor.from_local(torch.ones(2, 2), mesh, placements, run_check=False))
    for name, placements in each.items()
}
print(json.dumps({**found, "plain": part_of(torch.ones(2))}))
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("rank", "hybrid"), [(1, 1), (2, 0)])
def test_a_rank_knows_its_part_of_every_kind_of_sharding(rank, hybrid):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(rank)],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "hybrid": [hybrid, 2],
        "both": [rank, 4],
        "whole": [0, 1],
        "sums": [0, 0],
        "plain": [0, 0],
    }
