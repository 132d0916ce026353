"""Trains with Lightning in one of several ways; writes what it did, by its own clock, to truth.json."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
BATCHES = 24
truth: dict[str, Any] = {"steps": 0, "losses": [], "validation": []}
took: dict[str, float] = {"load": 0.0, "compute": 0.0, "callback": 0.0}


class Samples(Dataset):
    """Random samples, each of which takes a while to load."""

    def __init__(self, count: int, seconds: float) -> None:
        generator = torch.Generator().manual_seed(3)
        self.inputs = torch.randn(count, 64, generator=generator)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.inputs[at], self.labels[at]


class Clocked(DataLoader):
    """A loader that clocks how long the training waits for each batch."""

    def __iter__(self) -> Any:
        batches = super().__iter__()
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            took["load"] += time.perf_counter() - began
            if batch is None:
                return
            yield batch


class Net(LightningModule):
    """A classifier with a validation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        truth["losses"].append(loss.item())
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            truth["validation"].append(float(self.trainer.callback_metrics["val_loss"]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Generative(LightningModule):
    """Two optimizers, of which one steps in each batch and the other in every third."""

    automatic_optimization = False

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.maker, self.judge = nn.Linear(8, 64), nn.Linear(64, 1)

    def training_step(self, batch: Any, index: int) -> None:
        makes, judges = self.optimizers()
        fake = self.maker(torch.randn(len(batch[0]), 8))
        worth = self.judge(fake.detach()).mean() - self.judge(batch[0]).mean()
        judges.zero_grad()
        self.manual_backward(worth)
        judges.step()
        if index % 3 == 2:
            makes.zero_grad()
            self.manual_backward(-self.judge(self.maker(torch.randn(len(batch[0]), 8))).mean())
            makes.step()
        truth["steps"] += 1

    def configure_optimizers(self) -> Any:
        return [torch.optim.Adam(one.parameters(), lr=1e-3) for one in (self.maker, self.judge)]


class Slow(Callback):
    """Takes a while after each batch."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_train_batch_end(self, *_: Any) -> None:
        began = time.perf_counter()
        if self.seconds:
            time.sleep(self.seconds)
        took["callback"] += time.perf_counter() - began


class Clock(Callback):
    """Counts optimizer steps, as the trainer does, and measures batches."""

    def on_train_start(self, trainer: Any, module: Any) -> None:
        took["load"] = took["callback"] = 0.0
        self.began = time.perf_counter()

    def on_train_batch_start(self, *_: Any) -> None:
        self.batch = time.perf_counter()

    def on_before_zero_grad(self, *_: Any) -> None:
        pass

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        now = time.perf_counter()
        took["compute"] += now - self.batch
        truth["loop"] = now - self.began  # what follows the last step lies in none
        if module.automatic_optimization:
            truth["steps"] = trainer.global_step


def train(case: str) -> Any:
    """Train in one way; return the model."""
    seed_everything(5, verbose=False)
    data = Samples(BATCHES * 8, 0.002 if case == "data" else 0.0)
    checks = Samples(64, 0.0)
    model = Generative() if case == "gan" else Net(1024 if case == "compute" else 32)
    # The clock comes first: its callback at the end of a batch excludes the slow one.
    callbacks = [Clock(), Slow(0.005 if case == "callback" else 0.0)]
    trainer = Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=CSVLogger("logs"),
        log_every_n_steps=1,
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=5 if case == "accumulated" else 1,
        enable_checkpointing=case == "plain",
    )
    listed = list(trainer.callbacks)
    workers = {"num_workers": 1} if case == "workers" else {}
    loader = (Clocked if case == "data" else DataLoader)(data, batch_size=8, **workers)
    trainer.fit(model, loader, None if case == "gan" else DataLoader(checks, batch_size=16))
    assert trainer.callbacks == listed
    return model


if __name__ == "__main__":
    model = train(sys.argv[1])
    state = b"".join(one.numpy().tobytes() for one in model.state_dict().values())
    truth["model"] = hashlib.sha256(state).hexdigest()
    Path("truth.json").write_text(json.dumps({**truth, "took": took}))
