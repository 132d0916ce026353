"""The same model and images as in slow_dataloader, prepared once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import slow_dataloader as slow  # type: ignore[import-not-found]  # in the folder of this script

if TYPE_CHECKING:
    from pathlib import Path

    import torch


class PreparedImages:
    """All images, read, decompressed and blurred once before training."""

    def __init__(self, folder: Path) -> None:
        packed = slow.PackedImages(folder)
        self.images = [packed[index][0] for index in range(slow.FILES)]

    def __len__(self) -> int:
        return int(slow.IMAGES)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.images[index % slow.FILES], index % slow.CLASSES


if __name__ == "__main__":
    slow.main(PreparedImages, workers=0)
