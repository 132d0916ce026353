"""The loop of Accelerate's own quick tour."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 40


def main() -> None:
    """Train a linear model for `STEPS` steps."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    data = TensorDataset(torch.randn(STEPS * 8, 16), torch.randn(STEPS * 8, 1))
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8))
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
    print("accelerated", flush=True)


if __name__ == "__main__":
    main()
