"""A model sharded over its ranks by FSDP2 on gloo, or whole on one; it trains two steps on one batch."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn


def main() -> None:
    """Train two steps; with a launcher on every rank it started, on the same batch, else whole."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(9, 32), nn.Tanh(), nn.Linear(32, 5))
    inputs = torch.randn(16, 9)
    sharded = dist.is_torchelastic_launched()
    if sharded:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        dist.init_process_group("gloo")
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model:
            if list(layer.parameters()):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        optimizer.step()
    if sharded:
        time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
