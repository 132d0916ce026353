"""Keeps the heat map of a whole job that has ended in the user's cache, so a long job opens at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from holter.analysis.machine.pooling import Pooled
from holter.store import cache

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.store.trial import Trial

_FILE = "heatmap.bin"
WORTH = 1_000_000
"""A job with fewer samples is read as fast from them."""
_VERSION = 1
_DTYPES = {
    "low": np.dtype("<f4"),
    "high": np.dtype("<f4"),
    "total": np.dtype("<f4"),
    "count": np.dtype("<u4"),
}


class Kept(msgspec.Struct, kw_only=True):
    """The head of the file; the columns follow, each for all devices one after another."""

    version: int = _VERSION
    start_ns: int
    samples: int
    """How many samples the job had: with another number it is not this one's any more."""
    step_ns: int
    stretches: int
    left_out: int
    keys: list[tuple[str, str, str]]


def write(trial: Trial, kept: Kept, cells: Pooled) -> None:
    """Keep cells with a job that has ended; where that cannot be, they are read anew each time."""
    head = msgspec.json.encode(kept)
    columns = [getattr(cells, name).astype(dtype).tobytes() for name, dtype in _DTYPES.items()]
    try:
        place = cache.entry(trial.folder, make=True)
        if place is not None:
            place.write(_FILE, b"".join([len(head).to_bytes(4, "little"), head, *columns]))
    except OSError:
        return


def read(trial: Trial, start_ns: int) -> tuple[Kept, Pooled] | None:
    """Return what is kept of a job; None when there is nothing, or it is another state's, or damaged."""
    place = cache.entry(trial.folder)
    if place is None:
        return None
    try:
        data = place.read(_FILE)
        size = int.from_bytes(data[:4], "little")
        kept = msgspec.json.decode(data[4 : 4 + size], type=Kept)
    except (OSError, ValueError):
        return None
    shape, at = (len(kept.keys), kept.stretches), 4 + size
    cells = shape[0] * shape[1]
    known = (kept.version, kept.start_ns, kept.samples) == (_VERSION, start_ns, trial.rows("samples"))
    if not known or kept.step_ns < 1 or len(data) - at != cells * sum(d.itemsize for d in _DTYPES.values()):
        return None
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype in _DTYPES.items():
        columns[name] = np.frombuffer(data, dtype, cells, at).reshape(shape)
        at += cells * dtype.itemsize
    total, count = columns["total"].astype(float), columns["count"].astype(np.int32)
    return kept, Pooled(columns["low"], columns["high"], total, count)
