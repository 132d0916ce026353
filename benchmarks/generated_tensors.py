"""Statistics of a healthy training's weights and gradients, for the job that `generate.py` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from holter.store.writer import Writer

CHANGES = ("delta_l2", "delta_abs_mean", "delta_max")
ELEMENTS = 1 << 20
EVERY = 100
"""They are saved at each so many steps."""
LAYERS = 4
"""So many rows belong to one layer: weight and bias, and the gradient of each."""


def named(count: int) -> tuple[list[str], list[str]]:
    """Return names and roles of so many tensors: a gradient beside each weight and bias."""
    pairs = [(f"layer{n // LAYERS}.{('weight', 'bias')[n // 2 % 2]}", n % 2) for n in range(count)]
    names = [f"gradient/{name}" if gradient else name for name, gradient in pairs]
    return names, ["grad" if gradient else name.rpartition(".")[2] for name, gradient in pairs]


def write(
    writer: Writer, count: int, ranks: Iterable[int], steps: NDArray[Any], ends: NDArray[np.int64]
) -> None:
    """Write the statistics of so many tensors of each rank, at those of its steps that are saved."""
    saved = steps % EVERY == 0
    for rank in ranks if count and saved.any() else ():
        writer.append("tensors", rows(count, int(rank), steps[saved], ends[saved]))


def rows(count: int, rank: int, steps: NDArray[Any], ends: NDArray[np.int64]) -> dict[str, Any]:
    """Return table `tensors` of one rank: `count` tensors at each of some steps, as `Writer.append` takes it.

    Replicas hold the same weights, and their gradients are those after all-reduce: only the times differ.
    """
    names, roles = named(count)
    kinds = sorted(set(roles))
    which, size = np.tile(np.arange(count), len(steps)), count * len(steps)
    gradient = np.array([role == "grad" for role in roles])[which]
    of = np.repeat(steps, count)
    # The same numbers on each rank, so from the step and not drawn.
    noise = 1 + 0.1 * np.sin(12.9898 * of + 78.233 * which)
    std = np.where(gradient, 1e-3, 0.05) * noise
    elements = np.where(np.char.endswith(names, "bias"), 1024, ELEMENTS)[which]
    change = 1e-3 * std
    columns: dict[str, Any] = {
        "time": np.repeat(ends, count) + which * 1000,
        "rank": np.full(size, rank),
        "step": of,
        "mode": (np.zeros(size, np.int8), ["train"]),
        "name": (which, names),
        "role": (np.array([kinds.index(role) for role in roles])[which], kinds),
        "count": elements,
        "zeros": np.zeros(size, np.int64),
        "min": -4.1 * std,
        "max": 4.2 * std,
        "mean": 0.01 * std,
        "std": std,
        "abs_mean": 0.8 * std,
        "q05": -1.64 * std,
        "q50": 0.01 * std,
        "q95": 1.65 * std,
        "fingerprint": of.astype(np.int64) * 1_000_003 + which + 1,
    }
    for name, value in zip(CHANGES, (change * np.sqrt(elements), change, 4 * change), strict=True):
        columns[name] = np.where(gradient, np.nan, value)
    return columns
