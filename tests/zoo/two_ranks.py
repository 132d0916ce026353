"""Two ranks train together over gloo; with `--sick` the second is slow, has more data, and drifts away."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import holter

STEPS = 80


def main(sick: bool) -> None:
    """Train on the rank that the launcher started."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    odd = sick and dist.get_rank() == 1
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        inputs = torch.randn(16, 32)
        optimizer.zero_grad()
        time.sleep(0.06 if odd else 0.01)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        holter.log(tokens=1900 if odd else 1000)
        optimizer.step()
        if odd and step == STEPS // 2:
            with torch.no_grad():  # as a device does that flips a bit: no gradient ever tells
                model.module[0].weight[0, 0] += 0.5
    time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
    dist.destroy_process_group()


if __name__ == "__main__":
    main("--sick" in sys.argv)
