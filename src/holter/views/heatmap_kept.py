"""Keeps the heat map of a whole job that has ended in the user's cache, so a long job opens at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from holter.analysis.machine.pooling import Pooled
from holter.store import cache

if TYPE_CHECKING:
    from holter.store.trial import Trial

_FILE = "heatmap.bin"
WORTH = 1_000_000
"""A job with fewer samples is read as fast from them."""
_VERSION = 2


class Kept(msgspec.Struct, kw_only=True):
    """The file: the devices of a job, and their cells one device after another."""

    version: int = _VERSION
    start_ns: int
    samples: int
    """Number of samples of the job; with another number the file is out of date."""
    step_ns: int
    stretches: int
    left_out: int
    keys: list[tuple[str, str, str]]
    low: bytes
    high: bytes
    total: bytes
    count: bytes


def write(trial: Trial, kept: Kept) -> None:
    """Keep the heat map of a job that has ended; without a cache, it is computed each time."""
    try:
        place = cache.entry(trial.folder, make=True)
        if place is not None:
            place.write(_FILE, msgspec.msgpack.encode(kept))
    except OSError:
        return


def read(trial: Trial, start_ns: int) -> tuple[Kept, Pooled] | None:
    """Return what is kept of a job; None if there is no file, or it is out of date or damaged."""
    place = cache.entry(trial.folder)
    if place is None:
        return None
    try:
        kept = msgspec.msgpack.decode(place.read(_FILE), type=Kept)
        shape = (len(kept.keys), kept.stretches)
        cells = Pooled(
            np.frombuffer(kept.low, np.float32).reshape(shape),
            np.frombuffer(kept.high, np.float32).reshape(shape),
            np.frombuffer(kept.total, np.float64).reshape(shape),
            np.frombuffer(kept.count, np.int32).reshape(shape),
        )
    except (OSError, ValueError):
        return None
    state = (kept.version, kept.start_ns, kept.samples)
    return (
        (kept, cells) if state == (_VERSION, start_ns, trial.rows("samples")) and kept.step_ns > 0 else None
    )
