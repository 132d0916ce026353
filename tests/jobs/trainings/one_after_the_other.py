"""Train in a process of its own, if asked to, and evaluate after the last step."""

import sys
import time

import torch
from torch import multiprocessing, nn


def train(steps: int) -> nn.Module:
    """Train on random data."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 2, (4,))).backward()
        optimizer.step()
    return model


def evaluate(model: nn.Module) -> None:
    """Evaluate for a second at least."""
    model.eval()
    with torch.no_grad():
        for _ in range(20):
            model(torch.randn(4, 8))
            time.sleep(0.05)


if __name__ == "__main__":
    steps, where = int(sys.argv[1]), sys.argv[2]
    if where == "here":
        evaluate(train(steps))
    else:
        child = multiprocessing.get_context("spawn").Process(target=train, args=(steps,))
        child.start()
        child.join()
        evaluate(nn.Sequential(nn.Linear(8, 2)))
