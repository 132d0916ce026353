"""Saves SHAP values of a model of trees once, at the end of its training, for a sample of the rows."""

from __future__ import annotations

import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.trees.requested import Requested, wanted
from holter.recorder.guard import tell
from holter.recorder.tensors.collections import AT_END
from holter.recorder.tensors.explicit import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.session import Session

ROWS = 1000
"""Rows whose SHAP values are computed, at most; 1,000 rows take about as long as a few rounds."""
AVERAGE, FULL = AT_END


class Contributions:
    """Computes SHAP values with the library's own prediction, which leaves the model as it is."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._requested = Requested(session)
        self._samples: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """Matrix of the library → sample of its rows."""

    def keep(self, matrix: Any, data: Any) -> None:
        """Keep a sample of the data of a matrix that cannot return its rows later."""
        sample = _sample(data)
        if sample is not None:
            self._samples[matrix] = sample

    def kept(self, matrix: Any) -> Any:
        """Return the sample of a matrix; None without one."""
        return None if matrix is None else self._samples.get(matrix)

    def save(self, features: Sequence[str], explain: Callable[[], Any]) -> None:
        """Save what is requested.

        Args:
            features: Their names.
            explain: Returns an array of rows, classes if there are several, and features, the bias last; None
                without rows to explain.
        """
        due = self._requested.due(at_end=True)
        names = [f"{AVERAGE}/{feature}" for feature in features]
        averages = [wanted(due, name, "custom") for name in names]
        full = wanted(due, FULL, "custom")
        if not (full or any(averages)):
            return
        began = perf_counter_ns()
        values = explain()
        if values is None:
            tell("no SHAP values are saved: the rows of the data cannot be read at the end of the training")
            return
        if any(averages):
            size = abs(values)
            while size.ndim > 1:
                size = size.mean(0)  # over rows and classes
            for name, asked, mean in zip(names, averages, size[:-1].tolist(), strict=True):
                if asked:
                    self._requested.save(name, mean, "custom")
        if full:
            rows = max(SMALL // max(values[0].size, 1), 1)
            self._requested.save(FULL, values[: min(rows, len(values))], "custom")
        self._session.local.thread_spool.spent(perf_counter_ns() - began)


def spread(count: int) -> list[int]:
    """Return the numbers of at most `ROWS` evenly spaced rows of `count`."""
    chosen = min(ROWS, count)
    return [at * count // chosen for at in range(chosen)]


def _sample(data: Any) -> Any:
    """Return a copy of evenly spaced rows of a table; None if it cannot be indexed by row."""
    shape = getattr(data, "shape", None)
    if shape is None or len(shape) != 2:
        return None
    rows = spread(shape[0])
    if hasattr(data, "iloc"):
        return data.iloc[rows].copy()
    return data[rows] if hasattr(data, "tocsr") or type(data).__name__ == "ndarray" else None
