"""Which launch over several nodes a command belongs to."""

from __future__ import annotations

import pytest

from holter.agent.supervision.launch import Launch, launch

SLURM = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}


@pytest.mark.parametrize(
    ("words", "variables", "expected"),
    [
        ("python train.py", {}, None),
        ("torchrun --standalone --nproc-per-node 2 train.py", {}, None),
        ("torchrun --nproc-per-node 8 train.py --nnodes 2", {}, None),
        (
            "torchrun --nnodes 2 --node_rank 1 --master_addr a --master_port 5 train.py",
            {},
            Launch("torchrun none@a:5", 2),
        ),
        ("torchrun --nnodes=2 --master-addr=a train.py", {}, Launch("torchrun none@a:29500", 2)),
        (
            "python -m torch.distributed.run --nnodes 1:4 --rdzv_id job-7 --rdzv-endpoint a:6 train.py",
            {},
            Launch("torchrun job-7@a:6", 1, "job-7"),
        ),
        (
            "torchrun train.py",
            {"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "a:1", "PET_RDZV_ID": "x"},
            Launch("torchrun x@a:1", 2, "x"),
        ),
        (
            "accelerate launch --num_machines 2 --main_process_ip a --main_process_port 6 train.py",
            {},
            Launch("accelerate a:6", 2),
        ),
        ("accelerate launch --num_machines 1 --main_process_ip a train.py", {}, None),
        ("python train.py", SLURM, Launch("slurm 4711.0", 2, "4711-0")),
        ("torchrun --nnodes 2 --master-addr a train.py", SLURM, Launch("slurm 4711.0", 2, "4711-0")),
        ("python train.py", {**SLURM, "SLURM_STEP_NUM_NODES": "1"}, None),
        (
            "python train.py",
            {"MASTER_ADDR": "a", "MASTER_PORT": "7", "WORLD_SIZE": "2", "RANK": "0"},
            Launch("torch @a:7", None),
        ),
        ("python train.py", {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "n"}, Launch("mpi n", None)),
    ],
)
def test_launches(words: str, variables: dict[str, str], expected: Launch | None) -> None:
    assert launch(words.split(), variables) == expected
