"""A training that knows nothing of holter: `unrecorded.py SECONDS [PAUSE]`; its dataset may be slow.

Its model waits instead of computing, so that the shares of a step do not depend on the machine: the backward
pass takes twice the time of the forward pass.
"""

import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAUSE = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
WORK_S = 0.001 if PAUSE else 0.02


class Images(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return self.decode(index), index % 10

    def decode(self, index):
        if PAUSE:
            time.sleep(PAUSE)
        return torch.ones(16)


class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, batch):
        time.sleep(WORK_S)
        return batch.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(2 * WORK_S)
        return gradient


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 10)

    def forward(self, batch):
        return Wait.apply(self.layer(batch))


def train(model, loader, optimizer, until):
    for step, (batch, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), target)
        loss.backward()
        optimizer.step()
        if step == 0:  # the first one imports more of torch
            print("trains", os.getpid(), flush=True)
        if time.monotonic() > until:
            return


torch.set_num_threads(1)
network = Network()
train(
    network,
    DataLoader(Images(), batch_size=16),
    torch.optim.SGD(network.parameters()),
    time.monotonic() + float(sys.argv[1]),
)
