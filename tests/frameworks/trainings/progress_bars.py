"""Trains a little below a progress bar: `tqdm` or `rich` of Lightning, `trainer` of Hugging Face."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from torch.utils.data import Dataset

BATCHES, SECONDS = 60, 0.05


class Numbers(Dataset):
    """Random samples, as a mapping."""

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        time.sleep(SECONDS)
        return {"x": torch.randn(8)}


def with_lightning(bar: str) -> None:
    """Train below a bar of Lightning."""
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import RichProgressBar, TQDMProgressBar

    class Net(LightningModule):
        """A layer."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return self.layer(batch["x"]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    shown = RichProgressBar() if bar == "rich" else TQDMProgressBar()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = Trainer(max_epochs=1, accelerator="cpu", callbacks=[shown], **quiet)
    trainer.fit(Net(), torch.utils.data.DataLoader(Numbers(), batch_size=1))


def with_trainer() -> None:
    """Train below the bar of the Trainer."""
    from transformers import Trainer, TrainingArguments

    class Net(torch.nn.Module):
        """A layer that returns its loss."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.layer(x).square().mean()}

    arguments = TrainingArguments(
        "out", use_cpu=True, num_train_epochs=1, per_device_train_batch_size=1, save_strategy="no",
        logging_strategy="no", report_to=[],
    )  # fmt: skip
    Trainer(model=Net(), args=arguments, train_dataset=Numbers()).train()


if __name__ == "__main__":
    torch.set_num_threads(1)
    with_trainer() if sys.argv[1] == "trainer" else with_lightning(sys.argv[1])
    print("the end")
