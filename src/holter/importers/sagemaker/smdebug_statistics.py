"""Statistics of a tensor that smdebug saved: of its values, or of reductions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def of_values(array: NDArray[Any]) -> dict[str, float]:
    """Return what a row of table `tensors` says of an array."""
    x = array.reshape(-1).astype(np.float64)
    finite = x[np.isfinite(x)]
    row: dict[str, float] = {"count": x.size, "nan": int(np.isnan(x).sum()), "zeros": int((x == 0).sum())}
    row |= {"posinf": int((x == np.inf).sum()), "neginf": int((x == -np.inf).sum())}
    if finite.size:
        row |= {"min": finite.min(), "max": finite.max(), "mean": finite.mean(), "std": finite.std()}
        row |= {"abs_mean": np.abs(finite).mean(), "q50": np.median(finite)}
    return row


def of_reductions(known: Mapping[str, float], shape: list[int] | None) -> dict[str, float]:
    """Return what reductions that were saved alone say: also how many elements there were, if they tell."""
    row = {k: known[k] for k in ("min", "max", "mean", "std") if k in known}
    if "variance" in known and "std" not in known and known["variance"] >= 0:
        row["std"] = known["variance"] ** 0.5
    count = float(np.prod(shape, dtype=np.float64)) if shape is not None else 0.0
    norm = known.get("l1", known.get("abs_sum"))
    for whole, each in ((norm, known.get("abs_mean")), (known.get("sum"), known.get("mean"))):
        if not count and whole and each and np.isfinite(whole / each) and 0 < whole / each < 1e18:
            count = float(round(whole / each))
    if "abs_mean" in known or (norm is not None and count):
        row["abs_mean"] = known["abs_mean"] if "abs_mean" in known else (norm or 0.0) / count
    if "std" not in row and count and {"l2", "mean"} <= set(known):
        row["std"] = max(known["l2"] ** 2 / count - known["mean"] ** 2, 0.0) ** 0.5
    return {**row, "count": int(count)}
