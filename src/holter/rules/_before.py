"""What was known of tensors at an earlier saved step, kept by name as columns, all tensors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def swapped(
    kept: dict[str, Any], names: list[str], now: Mapping[str, NDArray[Any]], *, first: bool = False
) -> tuple[NDArray[np.bool_], dict[str, NDArray[Any]]]:
    """Keep what tensors are now, and return what they were before.

    Args:
        kept: A place of its own in a rule's state.
        names: The tensors, each once.
        now: Columns of numbers, a value for each of them.
        first: Keep the first that was ever known of a tensor, instead of the last.

    Returns:
        Which of them were known, and the columns as they were; 0 where nothing was.
    """
    place = {name: i for i, name in enumerate(kept.get("names", ()))}
    known = len(place)
    for name in names:
        place.setdefault(name, len(place))
    where = np.fromiter(map(place.__getitem__, names), np.int64, len(names))
    old, before = where < known, {}
    columns: dict[str, list[Any]] = kept.get("columns", {})
    for name, column in now.items():
        values = np.zeros(len(place), dtype=column.dtype)
        values[:known] = columns.get(name, 0)
        before[name] = values[where]
        values[where[~old] if first else where] = column[~old] if first else column
        columns[name] = values.tolist()
    for name in columns.keys() - now.keys():
        columns[name] += [0] * (len(place) - known)
    kept.update(names=list(place), columns=columns)
    return old, before
