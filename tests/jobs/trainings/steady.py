"""Steps of 20 ms, each counted in a file, until a time is over or so many were: `FILE SECONDS [STEPS]`."""

import sys
import time

import torch

counted, seconds = open(sys.argv[1], "wb", buffering=0), float(sys.argv[2])  # noqa: SIM115
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
left = int(sys.argv[3]) if len(sys.argv) > 3 else -1
until = time.monotonic() + seconds
while left and time.monotonic() < until:
    left -= 1
    time.sleep(0.02)
    loss = torch.nn.functional.mse_loss(model(torch.randn(4, 8)), torch.zeros(4, 1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    counted.write(b".")
