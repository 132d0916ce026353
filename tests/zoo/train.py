"""Run trainings of the zoo: `train.py NAME` as a user's script, `train.py --store URL NAME …` as jobs."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path

import torch

import holter

SAVE = [
    "weights@10",
    "biases@10",
    "gradients@10",
    "activations@10:active",
    "losses@10",
    "inputs@10:values",
    "role=labels@10:values",
    "role=logits@10:values",
]
"""What every training saves, so that the rules about tensors have something to judge."""
SHELVES = [
    import_module(f"tests.zoo.{path.stem}")
    for kind in ("healthy", "sick")
    for path in sorted(Path(__file__).parent.glob(f"{kind}*.py"))
]


def find(name: str):
    """Return the training of this name."""
    return next(getattr(shelf, name) for shelf in SHELVES if hasattr(shelf, name))


def job_of(name: str) -> str:
    """Return the name of a training's job."""
    return name.replace("_", "-")


def main(words: list[str]) -> None:
    """Train; in one process, for most of what a small training takes is the import of torch."""
    torch.set_num_threads(1)
    if words[0] != "--store":
        torch.manual_seed(0)
        find(words[0])()
        return
    # The first step of an optimizer imports much of torch: that belongs to no training.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()
    for name in words[2:]:
        torch.manual_seed(0)
        holter.start(job=job_of(name), store=words[1], config={"interval_ms": 100, "save": SAVE})
        began = time.perf_counter()
        find(name)()
        print(f"{name}: {time.perf_counter() - began:.2f} s", flush=True)
        holter.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
