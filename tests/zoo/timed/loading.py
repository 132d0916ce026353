"""Trainings whose batches come late, each by another kind of iterator or dataset."""

from __future__ import annotations

import itertools
import json
import random
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tests.zoo.timed.clock import SICK, batch, busy, main, net, train
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.zoo.timed.clock import Batch

STEPS = 70
LATE_S = 0.03 * SICK


def train_on(loader: Iterable[Any]) -> None:
    """Train a model whose step takes some milliseconds with few samples, too."""
    train(loader, model=net(1024))


def stream() -> Iterator[Batch]:
    for _ in range(STEPS):
        time.sleep(LATE_S)
        yield batch()


def generator_sleeps() -> None:
    train(stream())


def tokenize() -> Iterator[Batch]:
    for _ in range(STEPS):
        busy(LATE_S)
        yield batch()


def generator_works() -> None:
    train(tokenize())


def prefetched(batches: Iterator[Batch]) -> Iterator[Batch]:
    held = next(batches)
    for following in batches:
        yield held
        held = following
    yield held


def nested_generators() -> None:
    train(prefetched(stream()))


class Shards:
    """Reads a shard for each batch, as a class with `__next__`."""

    def __init__(self) -> None:
        self.left = STEPS

    def __iter__(self) -> Shards:
        return self

    def __next__(self) -> Batch:
        if not self.left:
            raise StopIteration
        self.left -= 1
        time.sleep(LATE_S)
        return batch()


def class_with_next() -> None:
    train(Shards())


class Records(IterableDataset[Any]):
    """Yields sample by sample."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        for _ in range(STEPS * 16):
            if SICK:
                time.sleep(LATE_S / 16)
            yield torch.randn(256), random.randrange(4)


def iterable_dataset() -> None:
    train_on(DataLoader(Records(), batch_size=16))


class Photos(Dataset[Any]):
    """Decodes each sample on access."""

    def __len__(self) -> int:
        return STEPS * 16

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return self.decode(torch.full((256,), at / len(self))), at % 4

    def decode(self, pixels: torch.Tensor) -> torch.Tensor:
        busy(LATE_S / 16)
        return pixels


def slow_getitem() -> None:
    train_on(DataLoader(Photos(), batch_size=16))


def one_worker_is_too_slow() -> None:
    train_on(DataLoader(Photos(), batch_size=16, num_workers=1))


class Lines(Dataset[Any]):
    """Parses a text of JSON for each sample."""

    def __init__(self) -> None:
        words = ["word"] * (4000 * SICK or 1)
        self.text = json.dumps(words)

    def __len__(self) -> int:
        return 3 * STEPS * 64

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return self.parse(at), at % 4

    def parse(self, at: int) -> torch.Tensor:
        json.loads(self.text)
        return torch.full((256,), at / len(self))


def slow_parse() -> None:
    train_on(DataLoader(Lines(), batch_size=64))


def pad(samples: list[Any]) -> Batch:
    time.sleep(LATE_S)
    return torch.stack([one[0] for one in samples]), torch.stack([one[1] for one in samples])


def slow_collate() -> None:
    data = TensorDataset(*batch(STEPS * 16))
    train_on(DataLoader(data, batch_size=16, collate_fn=pad))


class Files(Dataset[Any]):
    """Reads a compressed file for each sample."""

    def __init__(self) -> None:
        self.path = Path("sample.bin")
        self.path.write_bytes(zlib.compress(random.Random(0).randbytes(1_600_000 * SICK or 256)))

    def __len__(self) -> int:
        return STEPS * 4

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return self.unpack(at), at % 4

    def unpack(self, at: int) -> torch.Tensor:
        raw = zlib.decompress(self.path.read_bytes())
        return torch.full((256,), float(raw[at % 16]))


def compressed_files() -> None:
    train_on(DataLoader(Files(), batch_size=4))


class Slow(Dataset[Any]):
    """Starts slowly in each worker, as a dataset that opens a large index."""

    def __init__(self) -> None:
        self.opened = False

    def __len__(self) -> int:
        return 10 * 16

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        if get_worker_info() and not self.opened:
            time.sleep(0.4 * SICK)
            self.opened = True
        return torch.full((256,), at / len(self)), at % 4


def workers_start_each_epoch() -> None:
    loader = DataLoader(Slow(), batch_size=16, num_workers=1, persistent_workers=not SICK)
    train(itertools.chain.from_iterable(loader for _ in range(6)), model=net(1024))


def two_loaders() -> None:
    quick = DataLoader(TensorDataset(*batch(STEPS * 16)), batch_size=16)
    slow = DataLoader(Photos(), batch_size=16)
    train_on(first for first, _ in zip(quick, slow, strict=True))


if __name__ == "__main__":
    main(globals())
