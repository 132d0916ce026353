"""A long training that a test looks into while it runs: `live.py [STEPS]`; it ends when `enough` appears."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn


def main(steps: int) -> None:
    """Train, on as many ranks as the launcher started."""
    torch.set_num_threads(1)
    model: nn.Module = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        inputs = torch.randn(8, 16)
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        time.sleep(0.005)
        if os.path.exists("enough"):
            break
    if "RANK" in os.environ:
        time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
        dist.destroy_process_group()


main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
