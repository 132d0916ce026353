"""Small trainings that are slow for a reason, and where no twin among the healthy ones fits, its twin.

A function that ends in `_well` is the healthy twin of the one before it.
"""

from __future__ import annotations

import gc
import io
import os
import threading
import time
from collections.abc import Callable

import torch
from tests.zoo.material import batches, classifier, learn, points
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import holter


class Slow(Dataset):
    """Samples that take a while each; with `worker`, only in that worker of the loader."""

    def __init__(self, count: int, seconds: float, worker: int | None = None) -> None:
        self.x, self.y = points(count)
        self.seconds, self.worker = seconds, worker

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int):
        info = torch.utils.data.get_worker_info()
        if self.worker is None or (info is not None and info.id == self.worker):
            time.sleep(self.seconds)
        return self.x[index], self.y[index]


def slow_input() -> None:
    """The training process makes each sample itself, in half a millisecond."""
    learn(DataLoader(Slow(1600, 0.0005), batch_size=16))


class Stream(Dataset):
    """Samples that are read from a pipe, as slowly as another thread writes them."""

    def __init__(self, count: int) -> None:
        self.count = count
        out, into = os.pipe()
        self.file = open(out, "rb", buffering=0)  # noqa: SIM115  it lives as long as the stream
        threading.Thread(target=self._write, args=(into,), daemon=True).start()

    def _write(self, into: int) -> None:
        with open(into, "wb", buffering=0) as file:
            for _ in range(self.count):
                time.sleep(0.01)
                file.write(bytes(64))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return self.read(), index % 4

    def read(self) -> torch.Tensor:
        """Wait for the next sample."""
        return torch.frombuffer(bytearray(self.file.read(64)), dtype=torch.float32).clone()


def slow_storage() -> None:
    """Its samples come from somewhere slow."""
    stream = Stream(150)
    learn(DataLoader(stream, batch_size=2))
    stream.file.close()


def lame_worker() -> None:
    """One of three workers of the loader is much slower than the others."""
    learn(DataLoader(Slow(1440, 0.002, worker=1), batch_size=16, num_workers=3))


def lame_worker_well() -> None:
    """All three workers are equally fast."""
    learn(DataLoader(Slow(1440, 0.001), batch_size=16, num_workers=3))


class SlowFile(io.BytesIO):
    """A file on storage that takes a while for whatever is written."""

    def write(self, data) -> int:
        time.sleep(0.0005)
        return super().write(data)


def saves_too_often() -> None:
    """A checkpoint to slow storage after every third step."""
    model = classifier(16, 64)

    def save(step: int) -> None:
        if step % 3 == 2:
            torch.save(model.state_dict(), SlowFile())

    learn(batches(points, 100), model, after=save)


def evaluates_too_often() -> None:
    """Ten evaluation batches after every five steps."""
    model = classifier(16, 64)
    held = points(4096)

    def evaluate(step: int) -> None:
        if step % 5 == 4:
            model.eval()
            with torch.no_grad():
                for _ in range(10):
                    model(held[0])
            model.train()

    learn(batches(points, 100), model, after=evaluate)


def forgets_to_evaluate() -> None:
    """Three evaluations, ten steps apart, then none."""
    model = classifier(16, 64)
    held = points(256)

    def evaluate(step: int) -> None:
        if step in (20, 40, 60):
            model.eval()
            with torch.no_grad():
                holter.log(val_loss=functional.cross_entropy(model(held[0]), held[1]).item())
            model.train()

    learn(batches(points, 400), model, after=evaluate)


def litters() -> None:
    """The loop collects garbage after every step, while many objects live."""
    gc.freeze()  # what torch holds would make it slower still
    alive = [[number] for number in range(200_000)]

    def collect(_step: int) -> None:
        gc.collect()

    learn(batches(points, 100), after=collect)
    assert alive
    gc.unfreeze()


def litters_well() -> None:
    """The same objects live, and the collector runs when it likes to."""
    alive = [[number] for number in range(200_000)]
    learn(batches(points, 60))
    assert alive


def dawdles() -> None:
    """After each step the loop does something that is no part of training."""

    def dawdle(_step: int) -> None:
        time.sleep(0.015)

    learn(batches(points, 100), after=dawdle)


class Waiting(nn.Module):
    """A network whose forward pass waits as long as it is told for each call, counted from 1."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        super().__init__()
        self.inner, self.calls, self.seconds = classifier(16, 64), 0, seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        time.sleep(self.seconds(self.calls))
        return self.inner(x)


def dawdles_well() -> None:
    """The time goes into the forward pass."""
    learn(list(batches(points, 100)), Waiting(lambda call: 0.008))


def stumbles() -> None:
    """One step in ten takes far longer than the others."""
    learn(batches(points, 150), Waiting(lambda call: 0.002 if call % 10 else 0.3))


def stumbles_well() -> None:
    """All steps take equally long."""
    learn(batches(points, 150), Waiting(lambda call: 0.01))


def starts_late() -> None:
    """Nothing happens for a while, and then the first step takes as long as hundreds of others."""
    time.sleep(4.0)
    learn(batches(points, 80), Waiting(lambda call: 3.0 if call == 1 else 0.001))


def compiles_again() -> None:
    """A compiled function sees another size of batch at every step."""
    model = classifier(16, 64)
    compiled = torch.compile(model, backend="eager", dynamic=False)
    torch._dynamo.config.recompile_limit = 20
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(70):
        x, y = points(16 + max(0, step - 55))
        loss = functional.cross_entropy(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def compiles_again_well() -> None:
    """A compiled function sees one size of batch."""
    model = classifier(16, 64)
    compiled = torch.compile(model, backend="eager", dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches(points, 100):
        loss = functional.cross_entropy(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def hangs() -> None:
    """After some steps nothing moves any more for a while."""

    def stick(step: int) -> None:
        time.sleep(5.0 if step == 60 else 0.005)

    learn(batches(points, 80), after=stick)


def watches_itself() -> None:
    """So many annotations that recording them is much of the work."""

    def annotate(_step: int) -> None:
        for _ in range(10000):
            with holter.annotate("nothing"):
                pass

    learn(batches(points, 150), after=annotate)
