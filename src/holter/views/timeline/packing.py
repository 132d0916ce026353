"""Encodes a slice of a timeline as bytes: columns of numbers that a browser uses without parsing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.views.timeline.lanes import TimelineSlice
    from holter.views.timeline.reading import Lane

COLUMNS = (
    ("time", "<f8"),
    ("duration", "<f8"),
    ("busy", "<f8"),
    ("count", "<u4"),
    ("name", "<u4"),
    ("depth", "<u2"),
)
"""What each block has, and how it is written. Times are ns since the origin, exact up to 104 days."""
_LONGEST_NAME = 300
"""Longer names are cut; the details of an event have the whole name."""


def packed(picture: TimelineSlice, origin_ns: int, numbers: Mapping[Lane, int], version: str) -> bytes:
    """Return a slice as bytes, little-endian.

    First comes the length of what follows as JSON, in 4 bytes; then that JSON, filled up with blanks so that
    the columns begin at a multiple of 8: `version`, `lanes` (for each its number, its level, and how many
    rows it has) and `names` (by code). Then the columns (`COLUMNS`), each for all lanes one after another; a
    lane's rows are sorted by line and begin.
    """
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name, _ in COLUMNS}
    lanes = []
    for strip in picture.strips:
        sequence = np.lexsort((strip.time, strip.depth))
        lanes.append((numbers[strip.lane], strip.level, len(sequence)))
        for name, parts in columns.items():
            values = getattr(strip, name)[sequence]
            parts.append(
                values - origin_ns if name == "time" else picture.codes[values] if name == "name" else values
            )
    names = {
        str(code): name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
        for code, name in zip(picture.codes.tolist(), picture.names, strict=True)
    }
    head = msgspec.json.encode({"version": version, "lanes": lanes, "names": names})
    head += b" " * (-(4 + len(head)) % 8)
    body = [np.concatenate(columns[name] or [np.empty(0)]).astype(dtype).tobytes() for name, dtype in COLUMNS]
    return b"".join([len(head).to_bytes(4, "little"), head, *body])
