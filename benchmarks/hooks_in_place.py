"""What each hook of holter's costs where it is: between the work of a training, which has emptied the caches.

    holter run -- python benchmarks/hooks_in_place.py [--size 10ms] [--steps 600]

`step_cost.py` finds what very short steps grow by, when Python's own code and ours lie in the caches. After
ten milliseconds of matrix products little of either does, and the same hook takes several times as long.
Here the clock is read where a hook begins, where it hands over to torch, and where it gets back: `in` and
`out`. So it is in turns of 50 steps, with the hook and without: what torch does on that way, and what reading
the clock costs, is in both. Medians. What the hooks leave behind in the caches is in neither.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch
from loop import SIZES, material
from torch import nn
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader
from torch.utils.data._utils import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP, TURN = 100, 50
taken: dict[str, dict[bool, list[int]]] = {}
switches: list[Callable[[bool], object]] = []
"""Each puts a hook of holter's in its place, or takes it out."""
recorded = True


def note(what: str, begin: int, end: int) -> None:
    """Keep one duration."""
    taken.setdefault(what, {True: [], False: []})[recorded].append(end - begin)


def timed(function: Any, what: str, at: list[int]) -> Any:
    """Return `function`, whose way in and out is noted; `at` holds when what it calls began and ended."""

    def outer(*args: Any, **kwargs: Any) -> Any:
        begin = perf_counter_ns()
        result = function(*args, **kwargs)
        end = perf_counter_ns()
        note(f"{what}, in", begin, at[0])
        note(f"{what}, out", at[1], end)
        return result

    return outer


def innermost(function: Any, at: list[int]) -> Any:
    """Return `function`, of which `at` holds from now on when it began and ended."""

    def inner(*args: Any, **kwargs: Any) -> Any:
        at[0] = perf_counter_ns()
        try:
            return function(*args, **kwargs)
        finally:
            at[1] = perf_counter_ns()

    return inner


def around(owner: Any, name: str, what: str) -> None:
    """Time what holter's wrapper does before and after the function of torch that it wraps."""
    ours, at = vars(owner)[name], [0, 0]
    cell = ours.__closure__[ours.__code__.co_freevars.index("original")]
    cell.cell_contents = inner = innermost(cell.cell_contents, at)
    ways = {True: timed(ours, what, at), False: timed(inner, what, at)}
    switches.append(lambda on: setattr(owner, name, ways[on]))


def around_forward(cls: type[Any]) -> None:
    """Time a model's call until its forward begins, and from its end on."""
    ours, at = vars(cls)["__call__"], [0, 0]
    cls.forward = innermost(cls.forward, at)
    ways = {True: timed(ours, "forward", at), False: timed(nn.Module.__call__, "forward", at)}
    switches.append(lambda on: setattr(cls, "__call__", ways[on]))


def around_hook(hooks: dict[Any, Any], what: str) -> None:
    """Time a hook of all optimizers; without holter there is none."""

    def whole(*args: Any) -> Any:
        begin = perf_counter_ns()
        result = ours(*args)
        note(what, begin, perf_counter_ns())
        return result

    ((key, ours),) = hooks.items()
    switches.append(lambda on: hooks.update({key: whole}) if on else hooks.pop(key, None))


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="10ms")
    parser.add_argument("--steps", type=int, default=600)
    chosen = parser.parse_args()
    model, optimizer, batches = material(chosen.size)

    def train(steps: int) -> None:
        for inputs, targets in itertools.islice(every_epoch, steps):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()

    every_epoch = itertools.chain.from_iterable(itertools.repeat(batches))
    train(WARM_UP)
    if "__call__" not in vars(type(model)):
        raise SystemExit("nothing records this process; start it with `holter run --`")
    around_hook(optimizers._global_optimizer_pre_hooks, "optimizer, before")
    around_hook(optimizers._global_optimizer_post_hooks, "optimizer, after")
    around(torch.autograd, "backward", "backward")
    around(dataloader._BaseDataLoaderIter, "__next__", "next batch")
    around(fetch._MapDatasetFetcher, "fetch", "fetch")
    around_forward(type(model))
    for turn in range(2 * chosen.steps // TURN):
        global recorded
        recorded = turn % 2 == 0
        for switch in switches:
            switch(recorded)
        train(TURN)
    print(f"| hook in a step of {chosen.size}, µs | with | without | costs |\n|---|---|---|---|")
    rows = {
        what: [statistics.median(found[on]) / 1e3 if found[on] else 0.0 for on in (True, False)]
        for what, found in sorted(taken.items())
    }
    for what, (with_it, without) in [*rows.items(), ("all", map(sum, zip(*rows.values(), strict=True)))]:
        print(f"| {what} | {with_it:.1f} | {without:.1f} | {with_it - without:.1f} |")


if __name__ == "__main__":
    main()
