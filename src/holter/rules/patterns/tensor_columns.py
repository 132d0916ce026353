"""Numbers of tensors by name, kept as columns in a rule's state for vectorized access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from holter.rules import State


class ByName:
    """Columns of numbers by name; `keep` writes changes to the state."""

    def __init__(self, kept: State, dtypes: Mapping[str, Any]) -> None:
        """Read the columns.

        Args:
            kept: A dictionary in a rule's state that nothing else uses.
            dtypes: The columns to read; others stay as they are. A new column is 0.
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
        """Return the index of each name, and which names were known; new names get an index."""
        known = len(self._place)
        if new := [name for name in dict.fromkeys(names) if name not in self._place]:
            self._place.update(zip(new, range(known, known + len(new)), strict=True))
            self.columns = {
                n: np.concatenate([c, np.zeros(len(new), c.dtype)]) for n, c in self.columns.items()
            }
        where = np.fromiter(map(self._place.__getitem__, names), np.int64, len(names))
        return where, where < known

    def keep(self) -> None:
        """Write the columns to the state."""
        others: dict[str, list[Any]] = self._kept.get("columns", {})
        size = len(self._place)
        self._kept["names"] = self.names
        self._kept["columns"] = {
            **{name: column + [0] * (size - len(column)) for name, column in others.items()},
            **{name: column.tolist() for name, column in self.columns.items()},
        }


def swapped(
    kept: State, names: list[str], now: Mapping[str, NDArray[Any]], *, first: bool = False
) -> tuple[NDArray[np.bool_], dict[str, NDArray[Any]]]:
    """Store the present numbers of tensors, and return the previous ones.

    Args:
        kept: A dictionary in a rule's state that nothing else uses.
        names: The tensors, each once.
        now: Columns of numbers, a value for each of them.
        first: Keep the first numbers of a tensor instead of the last.

    Returns:
        Which tensors were known, and the previous columns; 0 for unknown tensors.
    """
    by_name = ByName(kept, {name: column.dtype for name, column in now.items()})
    where, known = by_name.where(names)
    before = {name: column[where] for name, column in by_name.columns.items()}
    chosen = ~known if first else np.full(len(names), True)
    for name, column in now.items():
        by_name.columns[name][where[chosen]] = column[chosen]
    by_name.keep()
    return known, before
