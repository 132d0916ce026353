"""Trainings that spend the job's time outside their steps: evaluation, compilation, start-up, the end."""

from __future__ import annotations

import time
from typing import Any

import torch
from tests.zoo.timed.clock import SICK, batch, busy, main, net, spending, spent, train
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def data(rows: int) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*batch(rows)), batch_size=64)


@torch.no_grad()
def test(model: nn.Module, loader: DataLoader[Any]) -> float:
    return sum(nn.functional.cross_entropy(model(x), y).item() for x, y in loader)


def evaluates_each_epoch() -> None:
    model, loader, held = net(), data(640), data(2000 * SICK + 64)
    for _ in range(15):
        model.train()
        train(loader, model=model)
        model.eval()
        with spending("evaluation"):
            test(model, held)


def evaluates_without_eval() -> None:
    model, loader, held = net(), data(640), data(2000 * SICK + 64)
    for _ in range(15):
        train(loader, model=model)
        with spending("evaluation"):
            test(model, held)


class Held(Dataset[Any]):
    """Held-out samples that take long to read."""

    def __len__(self) -> int:
        return 64 * 4

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        busy(0.001 * SICK)
        return torch.full((256,), at / len(self)), at % 4


def loads_slowly_to_evaluate() -> None:
    model, loader, held = net(), data(640), DataLoader(Held(), batch_size=64)
    for _ in range(10):
        train(loader, model=model)
        with spending("evaluation"):
            test(model, held)


def starts_workers_to_evaluate() -> None:
    """Makes the loader of the evaluation each time, whose worker starts anew."""
    model, loader = net(), data(640)
    kept = DataLoader(TensorDataset(*batch(256)), 64, num_workers=1, persistent_workers=True)
    for _ in range(10):
        train(loader, model=model)
        held = DataLoader(TensorDataset(*batch(256)), 64, num_workers=1) if SICK else kept
        with spending("evaluation"):
            test(model, held)


def evaluates_at_the_end() -> None:
    model = train(data(64 * 100))
    model.eval()
    with spending("evaluation"):
        for _ in range(6 * SICK):
            test(model, data(64 * 400))


def evaluates_each_step() -> None:
    """Like graph networks: the whole data is one batch, and each step evaluates it twice."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    held = batch()

    def both(_: int, model: nn.Module) -> None:
        model.eval()
        with torch.no_grad():
            for _ in range(2 * SICK):
                model(held[0])
        model.train()

    train([held] * 200, model=model, optimizer=optimizer, after=both, kind="evaluation")


def compiles() -> None:
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256)) for _ in range(16))
    )
    whole: Any = nn.Sequential(model, nn.Linear(256, 4))
    compiled = torch.compile(whole, backend="aot_eager") if SICK else whole
    given = [batch()]
    begin = time.perf_counter()
    train(given, model=compiled)
    spent["compile"] = time.perf_counter() - begin
    train(given * 60, model=compiled)


def compiles_again() -> None:
    """Each of twelve lengths of a batch compiles the model again."""
    model = net()
    torch._dynamo.config.cache_size_limit = 64
    compiled: Any = torch.compile(model, backend="aot_eager", dynamic=False) if SICK else model
    for rows in range(101, 113):
        with spending("compile"):
            train([batch(rows)], model=compiled)
    train([batch(101)] * 60, model=compiled)


def starts_late() -> None:
    with spending("startup"):
        time.sleep(4 * SICK)
    train([batch()] * 20)


def ends_late() -> None:
    train([batch()] * 100)
    with spending("end"):
        time.sleep(4 * SICK)


if __name__ == "__main__":
    main(globals())
