"""Computes how busy a device is per pixel, from the blocks of its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def busy(
    time: NDArray[np.int64],
    duration: NDArray[np.int64],
    worked: NDArray[np.int64],
    edges: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the share of each pixel in which something ran, in percent.

    Within a block the work counts as evenly spread. What runs on several streams at once counts as often, up
    to 100 in all: the share is that of the streams' union where they take turns, else an upper bound of it.

    Args:
        time: Begins of blocks in ns.
        duration: Their lengths in ns; blocks without length are left out.
        worked: Time in ns that something ran within each.
        edges: Where pixels begin, and where the last one ends, in ns.
    """
    shown = duration > 0
    begins, lengths = time[shown] - edges[0], duration[shown]  # relative: floats cannot hold the epoch's ns
    ends = begins + lengths
    moments = np.unique(np.concatenate([begins, ends, edges - edges[0]]))
    rate = np.zeros(len(moments))
    pace = worked[shown] / lengths
    np.add.at(rate, np.searchsorted(moments, begins), pace)
    np.add.at(rate, np.searchsorted(moments, ends), -pace)
    at_once = np.clip(np.cumsum(rate)[:-1], 0.0, 1.0)
    until = np.concatenate([[0.0], np.cumsum(at_once * np.diff(moments))])
    at: NDArray[np.float64] = until[np.searchsorted(moments, edges - edges[0])]
    share: NDArray[np.float64] = 100.0 * np.diff(at) / np.diff(edges)
    return share
