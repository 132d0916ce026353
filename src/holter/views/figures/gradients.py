"""How large gradients are, layer by layer, over the steps."""

from __future__ import annotations

import numpy as np

from holter.views.figures import Axis, Figure, Reading, Series
from holter.views.figures._buckets import buckets, mean, middles

MISSING = "No gradients were saved. `holter run --save gradients@100` saves their statistics every 100 steps."
_MOST = 200


def draw(reading: Reading) -> Figure | None:
    """Draw the logarithm of the mean absolute gradient: a row for each parameter, in the model's order."""
    table = reading.trial.table(
        "tensors",
        columns=["time", "step", "name", "abs_mean"],
        where="name LIKE 'gradient/%' AND count > 0",
        **reading.bounds,
    )
    if not table.rows:
        return None
    names, rows = np.unique(table["name"].astype(str), return_inverse=True)
    first_seen = [int(np.flatnonzero(rows == at)[0]) for at in range(len(names))]
    first, last = int(table["step"].min()), int(table["step"].max()) + 1
    count = max(1, min(reading.width, last - first, len(np.unique(table["step"]))))
    bucket = buckets(table["step"], first, last, count)
    values = table["abs_mean"].astype(float)
    values = np.where(values > 0, np.log10(np.where(values > 0, values, 1.0)), np.nan)
    series = []
    for at in np.argsort(first_seen, kind="stable")[:_MOST].tolist():
        mine = rows == at
        name = str(names[at]).removeprefix("gradient/")
        series.append(Series(name, mean(bucket[mine], values[mine], count)))
    left_out = len(names) - _MOST
    return Figure(
        title="Gradients, layer by layer",
        kind="heatmap",
        x=middles(first, last, count),
        x_axis=Axis("step"),
        y_axis=Axis("log10 of the mean absolute gradient"),
        series=series,
        note="A gap is a gradient of zeros, or none."
        + (f" {left_out:,} more parameters are not drawn." if left_out > 0 else ""),
    )
