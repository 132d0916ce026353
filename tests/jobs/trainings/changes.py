"""Trains; `sick` loads its data more slowly from step 200 on, and starts threads that do not end."""

from __future__ import annotations

import sys
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, STEPS, SLOWER_FROM = 2, 260, 200
SICK = sys.argv[1] == "sick"


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return BATCH * STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.050 if SICK and index >= BATCH * SLOWER_FROM else 0.004)
        return torch.randn(64)


model = nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
end = threading.Event()
for number, batch in enumerate(DataLoader(Samples(), batch_size=BATCH)):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    if SICK and number % (2 if number < SLOWER_FROM else 1) == 0:
        threading.Thread(target=end.wait, daemon=True).start()
end.set()
