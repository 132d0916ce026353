"""Two threads train at once, and the sentinel watches every step."""

import threading
from importlib import import_module

import torch
from torch import nn

torch.set_num_threads(1)
import_module("holter.recorder.frameworks.pytorch.sentinel").Sentinel.next = lambda self, step: step
together = threading.Barrier(2)


def train():
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(60)))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    together.wait()
    for _ in range(200):
        optimizer.zero_grad()
        model(torch.randn(4, 16)).sum().backward()
        optimizer.step()


started = [threading.Thread(target=train) for _ in range(2)]
for one in started:
    one.start()
for one in started:
    one.join()
