"""What peers cost that save every weight and gradient at each step; `tensors.py --peers FOLDER` starts it.

    FOLDER/tensors/bin/python benchmarks/tensor_peers.py PEER [--rounds 8]

Runs in the peer's own environment, as `benchmarks/peers` makes them. Two trainings of the same network, one
with the peer and one without, take turns in short blocks of steps.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import TYPE_CHECKING

import torch

from tensors import Loop, block, row

if TYPE_CHECKING:
    from collections.abc import Callable

    After = Callable[[int], None] | None


def tensorboard(loop: Loop, folder: str) -> After:
    """Write histograms with TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder)

    def write(step: int) -> None:
        for name, parameter in loop.model.named_parameters():
            writer.add_histogram(name, parameter.detach(), step)
            writer.add_histogram(f"gradient/{name}", parameter.grad, step)

    return write


def wandb(loop: Loop, folder: str) -> After:
    """Let wandb watch the model; what it found goes out with each call of `log`."""
    import wandb as peer

    run = peer.init(mode="offline", dir=folder)
    run.watch(loop.model, log="all", log_freq=1)
    return lambda step: run.log({"step": step})


def smdebug(reductions: tuple[str, ...], every: int = 1) -> Callable[[Loop, str], After]:
    """Return what registers a hook that saves reductions, or without any whole tensors."""

    def start(loop: Loop, folder: str) -> After:
        import numpy as np

        if np.__version__ >= "2":
            raise SystemExit(f"smdebug needs NumPy 1, not {np.__version__}: run benchmarks/peers again")
        import smdebug.pytorch as smd

        form = smd.ReductionConfig(reductions=list(reductions), save_raw_tensor=not reductions)
        hook = smd.Hook(
            out_dir=f"{folder}/smdebug",
            save_config=smd.SaveConfig(save_interval=every),
            include_collections=["weights", "biases", "gradients"],
            reduction_config=form,
        )
        hook.register_module(loop.model)
        return None

    return start


PEERS: dict[str, tuple[str, str, Callable[[Loop, str], After]]] = {
    "tensorboard": ("tensors", "TensorBoard, `add_histogram` of each", tensorboard),
    "wandb": ("tensors", 'wandb.watch, `log="all"`, `log_freq=1`, offline', wandb),
    "smdebug-nothing": (
        "smdebug",
        "smdebug, registered and saving nothing, `save_interval=1000000`",
        smdebug((), 1_000_000),
    ),
    "smdebug": (
        "smdebug",
        "smdebug, `save_interval=1`: min, max, mean, std, sum of each",
        smdebug(("min", "max", "mean", "std", "sum")),
    ),
    "smdebug-raw": ("smdebug", "smdebug, `save_interval=1`: each whole", smdebug(())),
}
"""Environment, what the table says, and what attaches it."""


def main() -> None:
    """Measure one peer; print one row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    _, said, start = PEERS[options.peer]
    plain, watched = Loop(), Loop()
    with tempfile.TemporaryDirectory() as folder:
        after = start(watched, folder)
        pairs = [(block(plain), block(watched, after)) for _ in range(options.rounds)]
        print(row(said, pairs))


if __name__ == "__main__":
    main()
