"""Every epoch decodes and blurs each image anew.

The model could take a step in a fraction of the time. The twin `healthy` prepares the data once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

STORED_SIDE = 384
SIDE = 80
FILES = 64
IMAGES = 320
BATCH = 16
CLASSES = 10


class PackedImages:
    """Images on disk, one compressed file each; built again for every sample of every epoch."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.z"))

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        packed = read_file(self.files[index % FILES])
        image = decode_image(packed)
        return median_blur(image), index % CLASSES


def read_file(path: Path) -> bytes:
    """Read one compressed image."""
    return path.read_bytes()


def decode_image(packed: bytes) -> torch.Tensor:
    """Decompress an image and bring it to the size that the model wants."""
    pixels = torch.frombuffer(bytearray(zlib.decompress(packed)), dtype=torch.uint8)
    stored = pixels.view(1, 3, STORED_SIDE, STORED_SIDE).float().div_(255)
    return nn.functional.interpolate(stored, size=(SIDE, SIDE), mode="bicubic", antialias=True)[0]


def median_blur(image: torch.Tensor) -> torch.Tensor:
    """Take the noise out of an image: sorts the neighborhood of every pixel, which is slow."""
    neighborhoods = nn.functional.unfold(image[:, None], kernel_size=5, padding=2)
    return neighborhoods.median(dim=1).values.view(3, SIDE, SIDE)


def write_images(folder: Path) -> None:
    """Make up some noisy pictures and write them to disk, compressed."""
    random = torch.Generator().manual_seed(0)
    for number in range(FILES):
        coarse = torch.randint(0, 192, (3, 16, 16), generator=random)
        smooth = coarse.repeat_interleave(STORED_SIDE // 16, 1).repeat_interleave(STORED_SIDE // 16, 2)
        noisy = (smooth + torch.randint(0, 32, smooth.shape, generator=random)).to(torch.uint8)
        (folder / f"{number:04d}.z").write_bytes(zlib.compress(bytes(noisy.flatten().tolist()), 1))


def classifier() -> nn.Module:
    """Return a small convolutional network."""
    return nn.Sequential(
        nn.Conv2d(3, 24, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(768, CLASSES),
    )  # fmt: skip


def main(dataset_of: type = PackedImages, workers: int = 1) -> None:
    """Write the images, then train for some seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=25.0)
    seconds = parser.parse_args().seconds
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        write_images(Path(name))
        images = dataset_of(Path(name))
        train(classifier(), DataLoader(images, batch_size=BATCH, shuffle=True, num_workers=workers), seconds)


def train(model: nn.Module, loader: DataLoader, seconds: float) -> None:
    """Train whole epochs until the time is up."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    started, step, epoch = time.monotonic(), 0, 0
    while time.monotonic() - started < seconds:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
        epoch += 1
        print(f"epoch {epoch}: {step} steps, loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
