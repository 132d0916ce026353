"""Trains for a few seconds: with more threads than cores, stopped for a while, or undisturbed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import torch
from torch import nn

LOOP_S = 4.0
STOPPED_S = 2.0


def main(case: str) -> None:
    torch.set_num_threads(4 * len(os.sched_getaffinity(0)) if case == "crowded" else 1)
    width = 512 if case == "crowded" else 32
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    begin, stopped = time.monotonic(), False
    while time.monotonic() < begin + LOOP_S:
        optimizer.zero_grad()
        model(torch.randn(256, width)).square().mean().backward()
        optimizer.step()
        if case == "stopped" and not stopped and time.monotonic() > begin + LOOP_S / 4:
            stopped = True
            me = os.getpid()
            command = f"kill -STOP {me}; sleep {STOPPED_S}; kill -CONT {me}"
            subprocess.Popen(["sh", "-c", command], start_new_session=True)


if __name__ == "__main__":
    main(sys.argv[1])
