"""Heat maps as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.pages.data.encoding import encoded
from holter.views.heatmap import packed

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
    """Return a heat map as bytes: the length of a JSON head, the head, then mean, minimum and maximum.

    Args:
        heat: The cells of a range of time.
        heatmap: The heat map that the cells are of.
        node: Keep the rows of this node only.
        shorten: Applied to the numbers.
    """
    start = heatmap.start_ns
    head, parts = packed(heat, start, node)
    text = encoded({"schema": 1, **head, "end": (heatmap.end_ns - start) / 1e9})
    text += b" " * (-(4 + len(text)) % 8)
    columns = [np.ascontiguousarray(shorten(part), "<f4").tobytes() for part in parts]
    return b"".join([len(text).to_bytes(4, "little"), text, *columns])
