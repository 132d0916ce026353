"""An image training whose input is too slow; with --prepared, the same training with the input prepared once.

Nothing here knows of holter. Try:

    holter run -- python examples/image_training/train.py
    holter run -- python examples/image_training/train.py --prepared
"""

from __future__ import annotations

import argparse
import os
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 4
SIDE = 48
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def make_photos(folder: Path, count: int, side: int = 512) -> None:
    """Write `count` PNG files of `side` x `side` pixels, each a colored pattern with some noise."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[0:side, 0:side] / side
    for number in range(count):
        waves = [np.sin((number % CLASSES + 1) * 6 * (x * a + y * b)) for a, b in random.normal(size=(3, 2))]
        pixels = 128 + 90 * np.stack(waves, axis=-1) + random.normal(0, 12, (side, side, 3))
        photo = encode_photo(pixels.clip(0, 255).astype(np.uint8))
        (folder / f"{number % CLASSES}-{number:05d}.png").write_bytes(photo)


def encode_photo(pixels: np.ndarray) -> bytes:
    """Turn pixels into the bytes of a PNG file; no row is filtered."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 1)),
        (b"IEND", b""),
    ]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return SIGNATURE + b"".join(chunks)


def decode_photo(data: bytes) -> np.ndarray:
    """Turn the bytes of a PNG file into pixels, if `encode_photo` made it."""
    width, height = struct.unpack_from(">II", data, 16)
    (length,) = struct.unpack_from(">I", data, 33)
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(height, 1 + 3 * width)
    if rows[:, 0].any():
        raise ValueError("its rows are filtered; this script reads only photos that it made")
    return rows[:, 1:].reshape(height, width, 3)


def slow_transform(pixels: np.ndarray) -> torch.Tensor:
    """Shrink, and stretch the contrast channel by channel: one row at a time, in Python."""
    small = pixels[:: pixels.shape[0] // SIDE, :: pixels.shape[1] // SIDE][:SIDE, :SIDE].astype(np.float64)
    for channel in range(3):
        levels = np.quantile(pixels[..., channel], [0.02, 0.98])
        for row in small[..., channel]:
            for column, value in enumerate(row):
                row[column] = min(max((value - levels[0]) / (levels[1] - levels[0] + 1e-6), 0.0), 1.0)
    return torch.from_numpy(small.transpose(2, 0, 1).astype(np.float32))


class Photos(Dataset):
    """PNG files on disk, decoded and transformed each time they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index]
        return slow_transform(decode_photo(file.read_bytes())), int(file.name[0])


class Prepared(Dataset):
    """The same photos, decoded and transformed once, ahead of the training."""

    def __init__(self, photos: Photos) -> None:
        rows = [photos[index] for index in range(len(photos))]
        self.pixels = torch.stack([pixels for pixels, _ in rows])
        self.labels = torch.tensor([label for _, label in rows])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.pixels[index], self.labels[index]


def network() -> nn.Module:
    """Build a small convolutional network."""
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 48, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(768, CLASSES),
    )


def give_way(worker: int) -> None:
    """Let the training process go first where there are fewer cores than processes."""
    os.nice(10)


def train(data: Dataset, *, epochs: int, batch: int, workers: int) -> float:
    """Train for some epochs; return the last loss."""
    loader = DataLoader(
        data,
        batch_size=batch,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        worker_init_fn=give_way,
    )
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(pixels), labels)
            loss.backward()
            optimizer.step()
    return loss.item()


def main() -> None:
    """Read the options, make photos if the folder has none, train."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, help="folder of PNG files; made anew when it has none")
    options.add_argument("--photos", type=int, default=256, help="how many to make")
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument(
        "--prepared", action="store_true", help="decode and transform once, before the training"
    )
    chosen = options.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    folder = chosen.data or Path(tempfile.gettempdir()) / "holter-example-photos"
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob("*.png")):
        make_photos(folder, chosen.photos)
    data: Dataset = Photos(folder)
    if chosen.prepared:
        data = Prepared(data)
    loss = train(data, epochs=chosen.epochs, batch=chosen.batch, workers=chosen.workers)
    print(f"loss {loss:.4f}")


if __name__ == "__main__":
    main()
