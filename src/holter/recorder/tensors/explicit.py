"""Saves arrays, numbers and lists that a script passes in, where no tensor framework is loaded.

The adapter of a framework replaces this saver.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from array import array
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.tensors import requests
from holter.recorder.tensors.collections import Collection, TensorInfo
from holter.recorder.tensors.schedule import MODES, Schedule
from holter.recorder.tensors.time_budget import TimeBudget
from holter.recorder.tensors.writing import TensorFiles
from holter.schema.phases import Mode
from holter.schema.tensor_spool import ENV_SAVE, Values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.recorder.session import Session

ALWAYS = Collection("default", schedules={mode: Schedule(1) for mode in MODES})
"""Collection of tensors that no other collection describes."""
SMALL = 1 << 14
"""Elements of a tensor that is stored element by element, at most."""
LARGEST = 1 << 20
"""Elements of a tensor that is summarized, at most: Python reads each."""
_TRAIN = int(Mode.TRAIN)
_NAN = float("nan")
_TINY = 2.2250738585072014e-308
"""The smallest normal number in double precision."""


class ExplicitSaver:
    """Serves `holter.save_tensor`, from any thread."""

    def __init__(self, session: Session) -> None:
        self.files = TensorFiles(session)
        self._session = session
        self._collections = requests.from_environment(os.environ.get(ENV_SAVE))
        self._lock = threading.Lock()
        self._time_budget = TimeBudget(self.files)
        self.files.describe([*self._collections, ALWAYS])
        os.register_at_fork(after_in_child=self._forked)

    def mode(self) -> int:
        """Return the mode `train`: without a framework the mode is unknown."""
        return _TRAIN

    def save(self, name: str, given: Any, role: str) -> None:
        """Save a tensor of the script now; a fault costs this tensor, never training."""
        self.save_as(TensorInfo(name, "custom", role), given)

    def save_as(self, what: TensorInfo, given: Any) -> None:
        """Save a tensor now, such as one of the model."""
        began, name = perf_counter_ns(), what.name
        try:
            step = self._session.step
            due = [one for one in self._collections if one.holds(what)] or [ALWAYS]
            if not any(one.due(MODES[_TRAIN], step, self._session.stride) for one in due):
                return
            try:
                shape, values = _flat(given)
            except (TypeError, ValueError, OverflowError) as error:
                self.files.tell_once(f"refused {name}", f"{name!r} cannot be saved as a tensor: {error}")
                return
            with self._lock:
                self._write(self.files.id(what), step, shape, values)
        except Exception as error:
            self._session.fault("saving", error)
        self._time_budget.held(began, self._session.step, name)

    def _write(self, number: int, step: int, shape: tuple[int, ...], values: Any) -> None:
        when = perf_counter_ns()
        figures = summary(values) if isinstance(values, array) else summary_by_numpy(values)
        self.files.row(when, step, _TRAIN, number, *figures)
        if len(values) <= SMALL:
            self.files.values(when, step, _TRAIN, number, Values.SHAPE, array("d", shape).tobytes())
            self.files.values(when, step, _TRAIN, number, Values.VALUE, values.tobytes())
        self.files.flush()

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self.files.forked()


def summary(values: array[float]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return counts and, over the finite elements, statistics as `tensor_spool` lists them; all are exact."""
    sound = sorted(filter(math.isfinite, values))
    zeros, tiny = sound.count(0.0), sum(0 < abs(value) < _TINY for value in sound)
    odd = (sum(map(math.isnan, values)), values.count(math.inf), values.count(-math.inf))
    counts = (len(values), *odd, zeros, tiny)
    if not sound:
        return counts, (_NAN,) * 8
    size = len(sound)
    mean = math.fsum(value / size for value in sound)
    std = math.sqrt(math.fsum((value - mean) ** 2 / size for value in sound))
    abs_mean = math.fsum(abs(value) / size for value in sound)
    quantiles = [_quantile(sound, share) for share in (0.05, 0.5, 0.95)]
    return counts, (sound[0], sound[-1], mean, std, abs_mean, *quantiles)


def summary_by_numpy(values: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return what `summary` returns, faster and rounded, for a NumPy array in double precision."""
    numpy = sys.modules["numpy"]
    with numpy.errstate(all="ignore"):  # the script may let NumPy warn or raise
        finite = values[numpy.isfinite(values)]
        odd = (
            int(numpy.isnan(values).sum()),
            int((values == math.inf).sum()),
            int((values == -math.inf).sum()),
        )
        size, zeros = int(finite.size), int((finite == 0).sum())
        magnitudes = abs(finite)
        counts = (int(values.size), *odd, zeros, int((magnitudes < _TINY).sum()) - zeros)
        if not size:
            return counts, (_NAN,) * 8
        scaled = finite / size
        mean = float(scaled.sum())
        std = math.sqrt(float(((finite - mean) ** 2 / size).sum()))
        quantiles = numpy.percentile(finite, (5, 50, 95)).tolist()
        return counts, (
            float(finite.min()),
            float(finite.max()),
            mean,
            std,
            float(abs(scaled).sum()),
            *quantiles,
        )


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _flat(given: Any) -> tuple[tuple[int, ...], Any]:
    """Return the sizes and the elements of an array, a number, or lists of numbers within lists.

    The elements are a flat array in double precision: NumPy's for an array of NumPy, else Python's.

    Raises:
        TypeError: A value that is not a number, or nested lists of different lengths.
        ValueError: Text that is not a number, or too many elements.
    """
    size = getattr(given, "size", None)
    if isinstance(size, int) and size > LARGEST:
        raise ValueError(f"it has {size} elements; at most {LARGEST} are summarized without a framework")
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(given) is numpy.ndarray and given.dtype.kind in "fiub":
        return given.shape, numpy.ascontiguousarray(given, dtype=numpy.float64).ravel()
    given = given.tolist() if hasattr(given, "tolist") else given
    shape, rest = [], given
    while isinstance(rest, list | tuple):
        shape.append(len(rest))
        rest = rest[0] if rest else None
    values = array("d", map(float, _leaves(given, shape)))
    if len(values) > LARGEST:
        raise ValueError(f"it has {len(values)} elements; at most {LARGEST} are summarized")
    return tuple(shape), values


def _leaves(given: Any, shape: list[int]) -> Iterator[Any]:
    if not shape:
        yield given
        return
    if not isinstance(given, list | tuple) or len(given) != shape[0]:
        raise TypeError("its lists differ in length")
    for one in given:
        yield from _leaves(one, shape[1:])
