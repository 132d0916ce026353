"""Infers the steps of a trace that does not mark them: from loaders and optimizers, else from repetition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.schema.table import NameCodes
from holter.schema.traces import INFERRED

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from holter.importers.staging import Staging

    Ints = NDArray[np.int64]

LOADER, OPTIMIZER = "enumerate(DataLoader)#", "Optimizer.step#"
"""PyTorch's names of each wait for a batch and of each step of an optimizer begin with these."""
LEAST_STEPS = 3
"""A period repeats at least this often."""
LEAST_EVENTS = 8
"""A period has at least this many kernels or operators."""
ALIKE = 0.9
"""A step repeats the usual one if so many of its kernels are the same,"""
MOSTLY = 0.75
"""and so many of the steps must repeat it, and hold so many of all kernels."""
_MOST_CELLS = 4_000_000
"""At most this many periods times names are compared."""
_MOST_PERIODS = 40
"""At most this many lengths of a period are tried."""
_HOST_KINDS = ("operator", "annotation")
_MARK = re.compile(f"{re.escape(LOADER)}|{re.escape(OPTIMIZER)}")


class InferredSteps(NamedTuple):
    """Steps in order of time, on the file's clock, and what shows them."""

    begin: Ints
    end: Ints
    name: str


def inferred_steps(staging: Staging) -> InferredSteps | None:
    """Infer the steps of a trace from its staged rows; None if nothing shows steps."""
    return _by_marks(staging) or _by_kernels(staging) or _by_operators(staging)


def _by_marks(staging: Staging) -> InferredSteps | None:
    """Infer steps from batches and optimizers: a step ends with the last optimizer before the next batch."""
    texts = NameCodes()
    rows = _rows(staging, "operators", ("time", "duration", "kind", "name"), texts, _MARK.match)
    rows = _where(rows, np.isin(rows["kind"], [texts[kind] for kind in _HOST_KINDS]))
    rows = _where(rows, np.argsort(rows["time"], kind="stable"))
    steps = [number for name, number in texts.items() if name.startswith(OPTIMIZER)]
    optimizing = np.isin(rows["name"], steps)
    begin, end = rows["time"], rows["time"] + rows["duration"]
    if not optimizing.any():
        return _steps(begin[:-1], begin[1:], LOADER)
    if optimizing.all():
        return _steps(end[:-1], end[1:], OPTIMIZER)
    last = optimizing & np.append(~optimizing[1:], True)
    ends = end[last]
    first = begin[~optimizing][0]
    ends = ends[ends > first]
    return _steps(np.append(first, ends[:-1]), ends, f"{LOADER} and {OPTIMIZER}")


def _steps(begin: Ints, end: Ints, source: str) -> InferredSteps | None:
    good = end > begin
    return InferredSteps(begin[good], end[good], f"{INFERRED}{source}") if good.any() else None


def _by_kernels(staging: Staging) -> InferredSteps | None:
    """Infer steps from the names of kernels, in the order in which the host launched them."""
    rows = _rows(staging, "kernels", ("time", "duration", "correlation", "device", "name"), NameCodes())
    if not len(rows["time"]):
        return None
    devices, counts = np.unique(rows["device"], return_counts=True)
    rows = _where(rows, rows["device"] == devices[np.argmax(counts)])
    launches = _rows(staging, "launches", ("time", "correlation"), NameCodes())
    order = np.argsort(launches["correlation"], kind="stable")
    known, asked = launches["correlation"][order], launches["time"][order]
    time, last = rows["time"], int((rows["time"] + rows["duration"]).max())
    if len(known):
        at = np.minimum(np.searchsorted(known, rows["correlation"]), len(known) - 1)
        time = np.where((known[at] == rows["correlation"]) & (rows["correlation"] > 0), asked[at], time)
    order = np.lexsort((rows["time"], time))
    return _by_repetition(time[order], rows["name"][order], last, "kernels")


def _by_operators(staging: Staging) -> InferredSteps | None:
    """Infer steps from the outer operators of the thread with the most, for traces without kernels."""
    texts = NameCodes()
    rows = _rows(staging, "operators", ("time", "duration", "thread", "kind", "name"), texts)
    rows = _where(rows, rows["kind"] == texts["operator"])
    if not len(rows["time"]):
        return None
    threads, counts = np.unique(rows["thread"], return_counts=True)
    rows = _where(rows, rows["thread"] == threads[np.argmax(counts)])
    rows = _where(rows, np.lexsort((-rows["duration"], rows["time"])))
    end = np.maximum.accumulate(rows["time"] + rows["duration"])
    outer = np.append(True, rows["time"][1:] >= end[:-1])
    return _by_repetition(rows["time"][outer], rows["name"][outer], int(end[-1]), "operators")


def _by_repetition(time: Ints, names: Ints, last: int, what: str) -> InferredSteps | None:
    """Find the longest period in which the same names come again, and begin it at the longest pause.

    A name that comes once per step marks the steps, if the same names with the same counts lie between its
    calls. Of several such names the one with the longest pause before it is where the loop begins anew.
    """
    distinct, code = np.unique(names, return_inverse=True)
    count = np.bincount(code)
    pause = np.diff(time, prepend=time[:1])
    often = np.unique(count[count >= LEAST_STEPS])
    for steps in often[:_MOST_PERIODS].tolist():
        if steps * LEAST_EVENTS > len(code) or steps * len(distinct) > _MOST_CELLS:
            break
        once = np.flatnonzero(count == steps)
        begins = np.array([np.median(pause[code == name]) for name in once.tolist()])
        for name in once[np.argsort(-begins, kind="stable")][:3].tolist():
            marks = np.flatnonzero(code == name)
            kept = _repeated(code, marks, len(distinct))
            if kept is not None:
                begin = time[marks]
                end = np.append(begin[1:], last)
                period = int(np.median(np.diff(marks)))
                return _steps(begin[kept], end[kept], f"the repetition of {period} {what}")
    return None


def _repeated(code: Ints, marks: Ints, names: int) -> NDArray[np.bool_] | None:
    """Return which stretches between marks are steps; None unless most repeat the same names."""
    period = np.searchsorted(marks, np.arange(len(code)), "right") - 1
    inside = period >= 0
    cells = np.bincount(period[inside] * names + code[inside], minlength=len(marks) * names)
    held = cells.reshape(len(marks), names)
    usual = np.median(held, axis=0)
    whole = max(float(usual.sum()), 1.0)
    alike = 1.0 - np.abs(held - usual).sum(axis=1) / whole >= ALIKE
    if whole < LEAST_EVENTS or alike.sum() < LEAST_STEPS - 1:
        return None
    if alike.mean() < MOSTLY or held[alike].sum() < MOSTLY * len(code):
        return None
    if (held[-1] > usual).any():
        return None  # layers repeat, too, but behind the last one comes something else
    keep = np.ones(len(marks), bool)
    keep[-1] = alike[-1]  # the trace may end in the middle of a step
    return keep


def _rows(
    staging: Staging,
    table: str,
    columns: tuple[str, ...],
    texts: NameCodes,
    test: Callable[[str], object] | None = None,
) -> dict[str, Ints]:
    """Read columns of a staged table, of rows whose name passes a test; texts become numbers of `texts`."""
    found: dict[str, list[Ints]] = {column: [np.empty(0, np.int64)] for column in columns}
    for rows in staging.read(table):
        keep: Any = slice(None)
        if test is not None:
            codes, values = rows["name"]
            passing = [n for n in np.unique(codes).tolist() if test(values[n])]
            keep = np.flatnonzero(np.isin(codes, passing))
        for column in columns:
            found[column].append(_numbers(rows[column], keep, texts))
    return {column: np.concatenate(parts) for column, parts in found.items()}


def _numbers(column: Any, keep: Any, texts: NameCodes) -> Ints:
    if not isinstance(column, tuple):
        return np.asarray(column[keep], np.int64)
    codes, values = column
    known, at = np.unique(codes[keep], return_inverse=True)
    return np.array([texts[values[n]] for n in known.tolist()], np.int64)[at]


def _where(rows: dict[str, Ints], keep: NDArray[Any]) -> dict[str, Ints]:
    return {name: column[keep] for name, column in rows.items()}
