"""A model that ranks divide on gloo: by FSDP2, by tensor parallelism, or by both; rank 1 is late.

Each rank writes its losses, a hash of its weights and the seconds of its loop to truth-RANK.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def divide(model: nn.Module, way: str) -> nn.Module:
    """Divide a model of two blocks over all ranks."""
    ranks = dist.get_world_size()
    shape = {"fsdp": (ranks, 1), "tensors": (1, ranks), "both": (ranks // 2, 2)}[way]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensors"))
    if way != "fsdp":
        for block in model:
            plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
            parallelize_module(block, mesh["tensors"], plan)
    if way != "tensors":
        for block in model:
            fully_shard(block, mesh=mesh["data"])
        fully_shard(model, mesh=mesh["data"])
    return model


def main(way: str, steps: int, late: float) -> None:
    """Train; the ranks that share a batch get the same one."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    blocks = [nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 32)) for _ in range(2)]
    model = divide(nn.Sequential(*blocks), way)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed({"fsdp": rank, "tensors": 0, "both": rank // 2}[way])
    truth: dict[str, Any] = {"losses": []}
    began = time.perf_counter()
    for _ in range(steps):
        batch = torch.randn(64, 32, generator=generator)
        if rank == 1:
            time.sleep(late)
        optimizer.zero_grad()
        loss = (model(batch) - batch).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        truth["losses"].append(loss.item())
    truth["loop"] = time.perf_counter() - began
    parts = [one._local_tensor.contiguous() for one in model.state_dict().values()]
    truth["weights"] = hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()
    Path(os.environ["TRUTH"], f"truth-{rank}.json").write_text(json.dumps(truth))
    time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=("fsdp", "tensors", "both"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--late", type=float, default=0.03)
    given = parser.parse_args()
    main(given.way, given.steps, given.late)
