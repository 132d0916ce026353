"""Several ranks on gloo: who waits for whom."""

from __future__ import annotations

import math
import statistics

import pytest
from tests.ports import free_port

from holter.schema.phases import Phase

DDP = """
import os, sys, time
import torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data(48), batch_size=4)
    for x, y in loader:
        if rank == 1:
            time.sleep(0.12)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with model.no_sync():
        model(x).sum().backward()
    dist.barrier()
    total = torch.ones(1)
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    (dist.isend(total, 1) if rank == 0 else dist.irecv(total, 0)).wait()
    time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
    dist.destroy_process_group()
"""

SPAWN = """
import torch.multiprocessing as mp

def entry(rank):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
    main()

if __name__ == "__main__":
    mp.spawn(entry, nprocs=2)
"""


def check(recording):
    fast, slow = recording.trainers
    waits = {}
    for rank, trainer in enumerate((fast, slow)):
        assert trainer.facts["rank"][-1]["rank"] == rank
        assert trainer.facts["rank"][-1]["world_size"] == 2
        assert len(trainer.of(Phase.STEP)) == 12
        assert trainer.per_step(Phase.FORWARD) == trainer.per_step(Phase.BACKWARD) == [1] * 12
        assert {s.name for s in trainer.of(Phase.FORWARD)} == {"Net"}
        gradients = trainer.of(Phase.COMMUNICATION, "DDP gradients")
        assert {s.value for s in gradients} == {4.0 * (8 * 16 + 16 + 16 * 2 + 2)}
        backward = trainer.of(Phase.BACKWARD)
        assert len(gradients) == 12  # not under no_sync
        assert len(backward) == 13
        for wait, around in zip(gradients, backward, strict=False):
            assert wait.inside(around)
        waits[rank] = statistics.median(s.duration for s in gradients) / 1e6
        assert len(trainer.of(Phase.COMMUNICATION, "barrier")) == 1
        assert not trainer.of(Phase.COMMUNICATION, "all_reduce")  # asynchronous: nobody waits in the call
        assert len(trainer.of(Phase.COMMUNICATION, "wait")) == 1
        assert len(trainer.of(Phase.COMMUNICATION, "recv wait" if rank else "send wait")) == 1
    assert waits[0] > 60, waits
    assert waits[1] < waits[0] / 2, waits


@pytest.mark.capability("PyTorch", ranks="DDP")
def test_ddp_under_torchrun(record):
    check(
        record(
            DDP + "\nmain()\n",
            launcher=("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"),
        )
    )


@pytest.mark.capability("PyTorch", ranks="DDP")
def test_ddp_by_multiprocessing_spawn(record, unused_port):
    check(record(DDP + SPAWN, str(unused_port)))


def test_blocking_collectives(record, unused_port):
    recording = record(
        """
        import os, sys
        import torch.distributed as dist
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
        dist.init_process_group("gloo")
        t = torch.ones(4)
        dist.all_reduce(t)
        dist.broadcast(t, 0)
        dist.all_gather([torch.empty(4)], t)
        dist.all_gather_object([None], "text")
        dist.all_reduce(t, dist.ReduceOp.SUM, None, True).wait()
        torch.distributed.distributed_c10d.barrier()
        few = dist.new_group([0], group_desc="few")
        for _ in range(2):
            dist.all_reduce(t, group=few)
        print(few.group_name)
        """,
        str(unused_port),
    )
    spans = recording.trainer.of(Phase.COMMUNICATION)
    (group,) = recording.trainer.facts["process_group"]
    assert group["ranks"] == [0]
    of_group = f"all_reduce in {group['name']}"
    assert [s.name for s in spans] == [
        *("all_reduce", "broadcast", "all_gather", "all_gather_object", "wait", "barrier"),
        *(of_group, of_group),
    ]
    assert [s.value for s in spans[:3]] == [16, 16, 16]
    assert all(math.isnan(s.value) for s in spans[3:6])
    assert [s.value for s in spans[6:]] == [16, 16]


def test_collectives_of_fsdp2_and_dtensor(record, unused_port):
    recording = record(
        """
        import os, sys
        import torch.distributed as dist
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
        dist.init_process_group("gloo")
        from torch.distributed import _functional_collectives as functional
        from torch.distributed.device_mesh import init_device_mesh

        t = torch.ones(4)
        for one in (dist.all_gather_single, dist.reduce_scatter_single):  # FSDP2 calls these
            one(torch.empty(4), t)
        mesh, few = init_device_mesh("cpu", (1,)), dist.new_group([0])
        for group in ((mesh, 0), mesh, few, few.group_name):  # DTensor passes the first
            assert functional.all_reduce(t, "sum", group).add(1).sum() == 8  # the first use waits
        functional.all_gather_tensor(t, 0, few).wait()
        print(few.group_name)
        """,
        str(unused_port),
    )
    spans = recording.trainer.of(Phase.COMMUNICATION)
    group = recording.stdout.split()[-1]
    assert [s.name for s in spans] == [
        *("all_gather_single", "reduce_scatter_single"),
        *("all_reduce", "wait_tensor") * 2,
        *(f"all_reduce in {group}", "wait_tensor") * 2,
        *(f"all_gather_tensor in {group}", "wait_tensor"),
    ]
    assert [s.value for s in spans] == [16] * 12


@pytest.fixture
def unused_port():
    return free_port()
