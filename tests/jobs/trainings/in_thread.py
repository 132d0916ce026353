"""The same small training in the main thread, in another, in an executor's, in two at once, or beside one."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
BATCHES = 40
began = threading.Event()


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.Linear(1024, 10))


def batches():
    features = torch.randn(BATCHES * 64, 64)
    return DataLoader(TensorDataset(features, features[:, :10].argmax(1)), 64)


def train():
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for at, (x, y) in enumerate(batches()):
        if at == 1:
            began.set()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(stop):
    model = net().eval()
    began.wait()
    with torch.no_grad():
        while not stop.is_set():
            for x, _ in batches():
                model(x)


def threads(count):
    together = threading.Barrier(count)
    started = [threading.Thread(target=lambda: (together.wait(), train())) for _ in range(count)]
    for one in started:
        one.start()
    for one in started:
        one.join()


how = sys.argv[1]
if how == "main":
    train()
elif how == "thread":
    threads(1)
elif how == "executor":
    with ThreadPoolExecutor(2) as pool:
        pool.submit(train).result()
elif how == "two":
    threads(2)
else:
    stop = threading.Event()
    beside = threading.Thread(target=evaluate, args=(stop,))
    beside.start()
    train()
    stop.set()
    beside.join()
