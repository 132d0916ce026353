"""A training that raises or warns: where, with how many workers, after how many calls, raise or warn."""

import logging
import sys
import traceback
import warnings

import torch
from torch.utils.data import DataLoader

where, workers, at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
raises = sys.argv[4] == "raise"
seen = 0


def hit(name):
    global seen
    if name != where:
        return
    seen += 1
    if seen <= at:
        return
    if raises:
        raise ValueError("from " + name)
    warnings.warn("from " + name, stacklevel=2)
    warnings.warn("caller of " + name, stacklevel=3)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        hit("dataset")
        return torch.ones(4)


def collate(samples):
    hit("collate")
    return torch.stack(samples)


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x):
        hit("forward")
        return self.layer(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        hit("optimizer")
        return super().step(closure)


def hook(gradient):
    hit("hook")


def main():
    torch.manual_seed(0)
    model = Model()
    optimizer = Optimizer(model.parameters(), lr=0.1)
    for batch in DataLoader(Data(), batch_size=4, num_workers=workers, collate_fn=collate, pin_memory=True):
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.register_hook(hook)
        loss.backward()
        optimizer.step()


if where == "empty":
    try:
        torch.optim.SGD([], lr=0.1)
    except ValueError:
        traceback.print_exc(file=sys.stdout)
try:
    main()
except ValueError as error:
    traceback.print_exc(file=sys.stdout)
    logging.exception("logged")
    raise RuntimeError("ends") from error
