"""Groups rows by equal values of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def coded(texts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the distinct texts of a column in order of appearance, and the index of each row's text."""
    number = {text: at for at, text in enumerate(dict.fromkeys(texts.tolist()))}
    codes = np.fromiter(map(number.__getitem__, texts.tolist()), np.int32, len(texts))
    names = np.empty(len(number), object)
    names[:] = list(number)
    return names, codes


def groups(*columns: NDArray[Any]) -> dict[tuple[Any, ...], NDArray[np.int64]]:
    """Return which rows have the same values in all columns: values → numbers of rows, both as they come."""
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    number = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    codes = np.fromiter(map(number.__getitem__, keys), np.int64, len(keys))
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(1, len(number)))
    return dict(zip(number, np.split(order, edges), strict=True)) if number else {}
