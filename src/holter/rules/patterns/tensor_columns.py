"""What is known of tensors, kept in a rule's state by name as columns: all tensors are looked up at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


class ByName:
    """Columns of numbers by name; changed in place, and written to the state by `keep`."""

    def __init__(self, kept: dict[str, Any], dtypes: Mapping[str, Any]) -> None:
        """Read them.

        Args:
            kept: A place of its own in a rule's state.
            dtypes: The columns wanted; others stay as they are. A column that is new is 0.
        """
        self._kept = kept
        self._place = {name: i for i, name in enumerate(kept.get("names", ()))}
        columns: dict[str, list[Any]] = kept.get("columns", {})
        zeros = [0] * len(self._place)
        self.columns = {name: np.array(columns.get(name, zeros), dtype) for name, dtype in dtypes.items()}

    @property
    def names(self) -> list[str]:
        """All names, in the order in which they were first seen."""
        return list(self._place)

    def where(self, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the place of each name, and which of them were known; new ones get a place."""
        known = len(self._place)
        if new := [name for name in dict.fromkeys(names) if name not in self._place]:
            self._place.update(zip(new, range(known, known + len(new)), strict=True))
            self.columns = {
                n: np.concatenate([c, np.zeros(len(new), c.dtype)]) for n, c in self.columns.items()
            }
        where = np.fromiter(map(self._place.__getitem__, names), np.int64, len(names))
        return where, where < known

    def keep(self) -> None:
        """Write them to the state."""
        others: dict[str, list[Any]] = self._kept.get("columns", {})
        size = len(self._place)
        self._kept["names"] = self.names
        self._kept["columns"] = {
            **{name: column + [0] * (size - len(column)) for name, column in others.items()},
            **{name: column.tolist() for name, column in self.columns.items()},
        }


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
    by_name = ByName(kept, {name: column.dtype for name, column in now.items()})
    where, known = by_name.where(names)
    before = {name: column[where] for name, column in by_name.columns.items()}
    chosen = ~known if first else np.full(len(names), True)
    for name, column in now.items():
        by_name.columns[name][where[chosen]] = column[chosen]
    by_name.keep()
    return known, before
