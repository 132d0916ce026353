"""Trains in one of several ways, and writes the sum of the weights."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import nn

STEPS = {"tiny": 200, "items": 200}


def tiny(outputs: torch.Tensor) -> None:
    with torch.no_grad():
        row = outputs[0]
        for _ in range(600):
            row = row * 1.0001
            row = row + 0.1
            row = torch.tanh(row)


def items(outputs: torch.Tensor) -> None:
    for number in range(600):
        outputs.detach()[0][number % 8].item()


def plain(_: torch.Tensor) -> None:
    pass


def main(case: str) -> None:
    torch.manual_seed(0)
    kind = torch.float64 if case == "double" else torch.float32
    size = 256 if case in ("plain", "double") else 32
    after = {"tiny": tiny, "items": items}.get(case, plain)
    model = nn.Sequential(nn.Linear(size, 4 * size), nn.ReLU(), nn.Linear(4 * size, size)).to(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(size, size, dtype=kind)
    for _ in range(STEPS.get(case, 60)):
        outputs = model(inputs)
        after(outputs)
        outputs.pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    total = float(sum(each.double().sum() for each in model.parameters()))
    Path("told.json").write_text(json.dumps({"weights": total.hex()}))


if __name__ == "__main__":
    main(sys.argv[1])
