"""What each hook of holter's costs where it is: between the work of a training, which has emptied the caches.

    holter run -- python benchmarks/hooks_in_place.py [--size 10ms] [--steps 600]

`step_cost.py` finds what very short steps grow by, when Python's own code and ours lie in the caches. After
ten milliseconds of matrix products little of either does, and the same hook takes several times as long.
Here the clock is read where a hook begins, where it hands over to torch, and where it gets back: `in` and
`out`. A forward pass is entered by way of torch's own `Module.__call__`, whose part is in the `in` of
`forward`. Medians; each piece has two reads of the clock in it, which lie in no cache either.
"""

from __future__ import annotations

import argparse
import statistics
from time import perf_counter_ns
from typing import Any

import torch
from loop import SIZES, material
from torch import nn
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader
from torch.utils.data._utils import fetch

WARM_UP = 100
taken: dict[str, list[int]] = {}


def note(what: str, begin: int, end: int) -> None:
    """Keep one duration."""
    taken.setdefault(what, []).append(end - begin)


def around(owner: Any, name: str, what: str) -> None:
    """Time what holter's wrapper does before and after the function of torch that it wraps."""
    ours = vars(owner)[name]
    cell = ours.__closure__[ours.__code__.co_freevars.index("original")]
    original, at = cell.cell_contents, [0, 0]

    def inner(*args: Any, **kwargs: Any) -> Any:
        at[0] = perf_counter_ns()
        try:
            return original(*args, **kwargs)
        finally:
            at[1] = perf_counter_ns()

    def outer(*args: Any, **kwargs: Any) -> Any:
        begin = perf_counter_ns()
        result = ours(*args, **kwargs)
        end = perf_counter_ns()
        note(f"{what}, in", begin, at[0])
        note(f"{what}, out", at[1], end)
        return result

    cell.cell_contents = inner
    setattr(owner, name, outer)


def around_forward(cls: type[Any]) -> None:
    """Time a model's call until its forward begins, and from its end on."""
    ours, forward, at = vars(cls)["__call__"], vars(cls)["forward"], [0, 0]

    def inner(self: Any, *args: Any) -> Any:
        at[0] = perf_counter_ns()
        try:
            return forward(self, *args)
        finally:
            at[1] = perf_counter_ns()

    def outer(self: Any, *args: Any) -> Any:
        begin = perf_counter_ns()
        result = ours(self, *args)
        end = perf_counter_ns()
        note("forward, in", begin, at[0])
        note("forward, out", at[1], end)
        return result

    cls.forward, cls.__call__ = inner, outer


def timed(hook: Any, what: str) -> Any:
    """Return a hook of an optimizer that times itself."""

    def whole(*args: Any) -> Any:
        begin = perf_counter_ns()
        result = hook(*args)
        note(what, begin, perf_counter_ns())
        return result

    return whole


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="10ms")
    parser.add_argument("--steps", type=int, default=600)
    chosen = parser.parse_args()
    model, optimizer, batches = material(chosen.size)

    def train(steps: int) -> None:
        done = 0
        while done < steps:
            for inputs, targets in batches:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()
                done += 1

    train(WARM_UP)
    if "__call__" not in vars(type(model)):
        raise SystemExit("nothing records this process; start it with `holter run --`")
    for hooks, what in (
        (optimizers._global_optimizer_pre_hooks, "optimizer, before"),
        (optimizers._global_optimizer_post_hooks, "optimizer, after"),
    ):
        for key, hook in list(hooks.items()):
            hooks[key] = timed(hook, what)
    around(torch.autograd, "backward", "backward")
    around(dataloader._BaseDataLoaderIter, "__next__", "next batch")
    around(fetch._MapDatasetFetcher, "fetch", "fetch")
    around_forward(type(model))
    train(chosen.steps)
    print(f"| hook in a step of {chosen.size} | median, µs |\n|---|---|")
    medians = {what: statistics.median(found) / 1e3 for what, found in taken.items()}
    for what, median in medians.items():
        print(f"| {what} | {median:.1f} |")
    print(f"| all | {sum(medians.values()):.1f} |")


if __name__ == "__main__":
    main()
