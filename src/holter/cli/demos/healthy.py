"""The same model and images as in slow_dataloader, prepared once."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import slow_dataloader as slow  # type: ignore[import-not-found]  # found beside this script
import torch
from torch.utils.data import DataLoader


class PreparedImages:
    """All images, read, decompressed and blurred once before training."""

    def __init__(self, folder: Path) -> None:
        packed = slow.PackedImages(folder)
        self.images = [packed[index][0] for index in range(slow.FILES)]

    def __len__(self) -> int:
        return int(slow.IMAGES)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.images[index % slow.FILES], index % slow.CLASSES


def main() -> None:
    """Prepare the data, then train for some seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=25.0)
    seconds = parser.parse_args().seconds
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        slow.write_images(Path(name))
        dataset = PreparedImages(Path(name))
    loader = DataLoader(dataset, batch_size=slow.BATCH, shuffle=True)
    slow.train(slow.classifier(), loader, seconds)


if __name__ == "__main__":
    main()
