"""Heat maps as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.pages.data.encoding import encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from holter.views.heatmap import Heat, Heatmap


def heatmap_bytes(
    heat: Heat,
    heatmap: Heatmap,
    node: str | None = None,
    shorten: Callable[[NDArray[np.float32]], NDArray[np.float32]] = lambda part: part,
) -> bytes:
    """Return a range of a heat map as bytes: length of a JSON head, head, then mean, minimum and maximum.

    `node` keeps the rows of that node only; `shorten` is applied to the numbers.
    """
    start = heatmap.start_ns
    kept = [place for place, row in enumerate(heat.rows) if node is None or row.node == node]
    head = {
        "schema": 1,
        "from": (heat.start_ns - start) / 1e9,
        "step": heat.step_ns / 1e9,
        "columns": int(heat.cells.count.shape[1]),
        "left_out": heat.left_out,
        "rows": [
            {"node": row.node, "name": row.name, "metric": row.metric, "unit": row.unit, "full": row.full}
            for row in (heat.rows[place] for place in kept)
        ],
        "end": (heatmap.end_ns - start) / 1e9,
    }
    parts = (shorten(part[kept]) for part in (heat.cells.mean, heat.cells.low, heat.cells.high))
    text = encoded(head)
    text += b" " * (-(4 + len(text)) % 8)
    columns = [np.ascontiguousarray(part, "<f4").tobytes() for part in parts]
    return b"".join([len(text).to_bytes(4, "little"), text, *columns])
