"""Reductions of a tensor, from its stored statistics, its elements, or its parts on several ranks.

All are over the finite elements; the others are counted. `std` and `variance` are of the elements as a whole
population (divided by n, not n - 1), norms are of the flattened tensor. What cannot be known is NaN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.schema.tensor_spool import COUNTS, DELTAS, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

Columns = dict[str, "NDArray[Any]"]

DERIVED = ("sum", "prod", "variance", "l1", "l2", "rms", "median", "nonfinite")
ABSOLUTE = tuple(
    f"abs_{name}" for name in ("min", "max", "sum", "prod", "std", "variance", "l1", "l2", "median")
)

ASKED: Mapping[str, tuple[str, Callable[[list[float]], float]]] = {
    "prod": ("prod", math.prod),
    "abs_prod": ("prod", lambda parts: abs(math.prod(parts))),
    "abs_min": ("abs_min", min),
}
"""Reductions that are stored on request: as which kind of `tensor_values`, and how parts join."""

REDUCTIONS = (*STATISTICS, *DERIVED, *ABSOLUTE, *COUNTS, *DELTAS)
"""Every reduction that can be asked for."""


def derived(stored: Mapping[str, NDArray[Any]]) -> Columns:
    """Work out every reduction from columns of stored statistics, one element a row.

    With n finite elements: sum = n·mean, l1 = n·abs_mean, l2² = n·(std² + mean²),
    abs_std² = std² + mean² - abs_mean². The product is known only where an element is zero or there is one.
    """
    found: Columns = {name: np.asarray(stored[name], dtype=np.float64) for name in (*STATISTICS, *DELTAS)}
    counts: Columns = {name: np.asarray(stored[name], dtype=np.int64) for name in COUNTS}
    n = (counts["count"] - counts["nan"] - counts["posinf"] - counts["neginf"]).astype(np.float64)
    n = np.where((n == 0) & ~np.isnan(found["mean"]), np.nan, n)  # their number was not saved
    low, high, mean, std, size = (found[k] for k in ("min", "max", "mean", "std", "abs_mean"))
    square = std**2 + mean**2
    zero = counts["zeros"] > 0
    with np.errstate(invalid="ignore"):
        abs_variance = np.maximum(square - size**2, 0.0)
        single = (n == 1) & ~np.isnan(mean)
        product = np.where(zero, 0.0, np.where(single, mean, np.nan))
        same_sign = (low > 0) | (high < 0)
        nearest = np.where(zero, 0.0, np.where(same_sign, np.minimum(np.abs(low), np.abs(high)), np.nan))
        nearest = np.where(single, np.abs(mean), nearest)
        median = np.where(same_sign | single, np.abs(found["q50"]), np.nan)
    found |= {
        "sum": mean * n,
        "prod": product,
        "variance": std**2,
        "l1": size * n,
        "l2": np.sqrt(square * n),
        "rms": np.sqrt(square),
        "median": found["q50"],
        "nonfinite": counts["nan"] + counts["posinf"] + counts["neginf"],
        "abs_min": nearest,
        "abs_max": np.maximum(np.abs(low), np.abs(high)),
        "abs_sum": size * n,
        "abs_prod": np.abs(product),
        "abs_std": np.sqrt(abs_variance),
        "abs_variance": abs_variance,
        "abs_median": median,
    }
    return {**found, "abs_l1": found["l1"], "abs_l2": found["l2"], **counts}


def of_elements(array: NDArray[Any]) -> dict[str, float]:
    """Work out every reduction of a tensor from its elements, of any numeric type; changes stay unknown."""
    whole = np.asarray(array).reshape(-1)
    if whole.dtype.kind not in "biuf":
        raise ValueError(f"elements of type {whole.dtype} have no order: their reductions are not defined")
    elements = whole.astype(np.float64)
    finite = elements[np.isfinite(elements)]
    found = dict.fromkeys(REDUCTIONS, float("nan"))
    tiny = float(np.finfo(whole.dtype).tiny) if whole.dtype.kind == "f" else 0.0
    found |= {
        "count": float(whole.size),
        "nan": float(np.isnan(elements).sum()),
        "posinf": float(np.isposinf(elements).sum()),
        "neginf": float(np.isneginf(elements).sum()),
        "zeros": float((elements == 0).sum()),
        "tiny": float(((elements != 0) & (np.abs(finite_or(elements, 1.0)) < tiny)).sum()),
        "nonfinite": float(whole.size - finite.size),
    }
    if not finite.size:
        return found
    size = np.abs(finite)
    with np.errstate(over="ignore", under="ignore"):
        for prefix, x in (("", finite), ("abs_", size)):
            found |= {
                f"{prefix}{name}": float(value)
                for name, value in (
                    ("min", x.min()),
                    ("max", x.max()),
                    ("mean", x.mean()),
                    ("std", x.std()),
                    ("variance", x.var()),
                    ("sum", x.sum()),
                    ("prod", x.prod()),
                    ("median", np.median(x)),
                    ("l1", size.sum()),
                    ("l2", np.sqrt((finite**2).sum())),
                )
            }
        found["rms"] = float(np.sqrt((finite**2).mean()))
    for name, share in (("q05", 0.05), ("q50", 0.5), ("q95", 0.95)):
        found[name] = float(np.quantile(finite, share))
    return found


def finite_or(elements: NDArray[np.float64], otherwise: float) -> NDArray[np.float64]:
    """Return the elements, with `otherwise` in place of those that are not finite."""
    return np.where(np.isfinite(elements), elements, otherwise)
