"""Two ranks train over gloo; the first argument names what they do wrong, or do right.

unwrapped: the loop calls the module inside DDP. alone: nobody wraps the model, and all compute the same.
undistributed: no DistributedSampler. local: ranks average their models every eight steps. good: DDP.
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = 24


def main(kind: str) -> None:
    """Train on the rank that the launcher started."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(16 * 2 * STEPS, 8), torch.arange(16 * 2 * STEPS) % 4)
    spread = kind not in ("alone", "undistributed", "unwrapped")
    loader = DataLoader(data, 16, sampler=DistributedSampler(data) if spread else None)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    wrapped = model if kind in ("alone", "local") else DistributedDataParallel(model)
    called = model if kind == "unwrapped" else wrapped
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        functional.cross_entropy(called(x), y).backward()
        optimizer.step()
        if kind == "local" and step % 8 == 7:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data)
                parameter.data /= 2
        if step == STEPS:
            break
    time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
