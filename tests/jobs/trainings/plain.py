"""A plain PyTorch loop as anyone writes it; its options make it go wrong in one way at one step."""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import signal
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    """Random points with a fixed answer, ready in memory."""

    def __init__(self, count: int, width: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(count, width, generator=generator)
        self.targets = self.inputs[:, :1].sin()

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.targets[index]


class Network(nn.Module):
    """A small network that can be told to go wrong in its forward pass."""

    def __init__(self, width: int, trouble: str, at: int, device_s: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4 * width, 1)
        )
        self.trouble, self.at, self.calls = trouble, at, 0
        self.device_s = device_s

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.calls == self.at:
            go_wrong(self.trouble)
        self.calls += 1
        time.sleep(self.device_s)
        outputs = self.layers(inputs)
        return outputs * float("nan") if self.trouble == "nan" and self.calls > self.at else outputs


def go_wrong(trouble: str) -> None:
    """Die, raise or stop moving, in the middle of a forward pass."""
    if trouble == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == "raise":
        raise RuntimeError("the seventh layer is missing")
    if trouble == "hang":
        while True:
            time.sleep(1)


def train(options: argparse.Namespace) -> str:
    """Train; return a digest of every parameter and of the last loss."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = Points(options.steps * options.batch, options.width)
    loader = DataLoader(data, batch_size=options.batch, shuffle=True, num_workers=options.workers)
    model = Network(options.width, options.trouble, options.at, options.device_ms / 1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    loss = torch.zeros(())
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        schedule.step()
    digest = hashlib.sha256(loss.detach().numpy().tobytes())
    for parameter in model.state_dict().values():
        digest.update(parameter.numpy().tobytes())
    return digest.hexdigest()


def main(words: list[str] | None = None) -> None:
    """Read the options and train, in this process or in one that it spawns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--trouble", choices=("", "kill", "raise", "hang", "nan"), default="")
    parser.add_argument("--at", type=int, default=40, help="the step at which it goes wrong")
    parser.add_argument("--device-ms", type=float, default=0, help="wait so long in forward, as for a device")
    parser.add_argument("--spawn", action="store_true", help="train in a spawned process")
    options = parser.parse_args(words)
    if options.spawn:
        process = multiprocessing.get_context("spawn").Process(target=_train_and_print, args=(options,))
        process.start()
        process.join()
        raise SystemExit(process.exitcode)
    _train_and_print(options)


def _train_and_print(options: argparse.Namespace) -> None:
    print("digest", train(options), flush=True)


if __name__ == "__main__":
    main()
