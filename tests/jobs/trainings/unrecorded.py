"""A training that knows nothing of holter: `unrecorded.py SECONDS [PAUSE]`; its dataset may be slow."""

import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAUSE = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
WIDTH = 64 if PAUSE else 512


class Images(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return self.decode(index), index % 10

    def decode(self, index):
        if PAUSE:
            time.sleep(PAUSE)
        return torch.ones(WIDTH)


def train(model, loader, optimizer, until):
    for batch, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), target)
        loss.backward()
        optimizer.step()
        if time.monotonic() > until:
            return


torch.set_num_threads(1)
network = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(8)], nn.Linear(WIDTH, 10))
print("trains", os.getpid(), flush=True)
train(
    network,
    DataLoader(Images(), batch_size=64),
    torch.optim.SGD(network.parameters()),
    time.monotonic() + float(sys.argv[1]),
)
