"""Two ranks train together over gloo; one of them may be slow."""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Network(nn.Module):
    """A small network whose forward pass takes `delay_s` longer."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
        self.delay_s = delay_s

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        time.sleep(self.delay_s)
        return self.layers(inputs)


def main() -> None:
    """Train on every rank that the launcher started."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument(
        "--delay", type=float, default=0.06, help="seconds by which its forward pass is slower"
    )
    parser.add_argument("--work", type=float, default=0.02, help="seconds that every forward pass takes")
    parser.add_argument("--raise-on-rank", type=int, default=-1, help="raise at step 20 on this rank")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    delay = options.work + (options.delay if dist.get_rank() == options.slow_rank else 0.0)
    model = DistributedDataParallel(Network(delay))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(options.steps):
        if step == 20 and dist.get_rank() == options.raise_on_rank:
            raise ValueError("no such word")
        inputs = torch.randn(16, 64)
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        optimizer.step()
    print(f"rank {dist.get_rank()} done", flush=True)
    time.sleep(0.5)  # else torch may abort as Python ends: pytorch/pytorch#190489
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
