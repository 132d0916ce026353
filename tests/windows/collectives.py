"""Two ranks that reduce on all and in a group, of which the second always comes late."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

import holter

ELEMENTS = 1000
LATE_S = 0.03


def main() -> None:
    """Twenty steps."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = dist.new_group([0, 1])
    tensor = torch.ones(ELEMENTS)
    for _ in range(20):
        with holter.step():
            if dist.get_rank() == 1:
                time.sleep(LATE_S)
            dist.all_reduce(tensor)
            dist.broadcast(tensor, 0, group=group)
    dist.destroy_process_group()


main()
