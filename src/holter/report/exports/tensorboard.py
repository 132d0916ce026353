"""A job's scalars and histograms as TensorBoard's event files: one file for each mode and rank.

An event file holds records with checksums, each a protocol-buffer message, by the public descriptions of
TFRecord (length, its masked CRC-32C, data, its masked CRC-32C), `event.proto` and `summary.proto`.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from holter.analysis.steps.trainings import begins, told_apart
from holter.report.exports import _merged
from holter.schema.protobuf import bytes_field, double_field, float_field, number_field, text_field
from holter.views.tables import steps_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holter.report.exports import ExportSelection
    from holter.schema.table import Table
    from holter.store.trial import Trial

ABOUT = "scalars and histograms of tensors as TensorBoard's event files"
SUFFIX = ""
SHOW = "tensorboard --logdir {output}"
NEEDS = "scalars and no tensors"

MODES = ("train", "eval", "predict", "global")
_DISTRIBUTION = ("count", "nan", "posinf", "neginf", "min", "max", "mean", "std")


def write(trial: Trial, chosen: ExportSelection, output: Path) -> int:
    """Write a job's event files below a folder, for `tensorboard --logdir FOLDER`.

    A run is a mode, or a mode and a rank when several ranks wrote: `train/rank1`. The horizontal axis is the
    global step. Scalars keep their names, and so do tensors of one element; histograms are called as their
    tensors. TensorBoard cannot show elements that are not finite in a histogram: their number is the scalar
    `nonfinite/<tensor>`.

    Returns the number of scalars and histograms. Raises `OSError` if the folder cannot be written.
    """
    scalars = chosen.table(trial, "scalars")
    scalars = told_apart(scalars, begins(steps_of(trial, columns=("time", "duration", "rank", "step"))))
    tensors = chosen.table(trial, "tensors", columns=("time", "rank", "step", "mode", "name", *_DISTRIBUTION))
    bins = chosen.table(trial, "tensor_values", "kind = 'histogram'")
    ranks = sorted(set(scalars["rank"].tolist()) | set(tensors["rank"].tolist()))
    written = 0
    for mode in MODES:
        for rank in ranks:
            mine = [_of(table, mode, rank) for table in (scalars, tensors, bins)]
            times = np.concatenate([table["time"] for table in mine])
            if not len(times):
                continue
            run = output / mode / f"rank{rank}" if len(ranks) > 1 else output / mode
            run.mkdir(parents=True, exist_ok=True)
            begin = int(times.min()) / 1e9
            with (run / f"events.out.tfevents.{int(begin):010d}.holter").open("wb") as file:
                written += _write(EventFile(file, begin), *mine)
    return written


def _of(table: Table, mode: str, rank: int) -> Table:
    return table.where((table["mode"] == mode) & (table["rank"] == rank))


def _write(file: EventFile, scalars: Table, tensors: Table, bins: Table) -> int:
    written = 0
    for row in scalars.to_rows():
        file.scalar(row["name"], row["step"], row["time"] / 1e9, row["value"])
        written += 1
    counts = _histograms(bins)
    for row in tensors.to_rows():
        at = row["time"] / 1e9
        nonfinite = row["nan"] + row["posinf"] + row["neginf"]
        if row["count"] == 1:
            file.scalar(row["name"], row["step"], at, _only(row))
            written += 1
        elif nonfinite:
            file.scalar(f"nonfinite/{row['name']}", row["step"], at, nonfinite)
            written += 1
        heights = counts.get((row["name"], row["step"]))
        if heights is not None and row["min"] <= row["max"]:
            finite = row["count"] - nonfinite
            edges = np.linspace(row["min"], row["max"], len(heights) + 1)
            if row["min"] == row["max"]:  # all alike: TensorBoard draws nothing without a width
                edges[-1] = np.nextafter(edges[-1], np.inf)
            file.histogram(
                row["name"],
                row["step"],
                at,
                edges.tolist(),
                heights,
                total=row["mean"] * finite,
                squares=(row["std"] ** 2 + row["mean"] ** 2) * finite,
            )
            written += 1
    return written


def _histograms(bins: Table) -> dict[tuple[str, int], list[float]]:
    """Return the heights of the bins by tensor and step."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for name, step, height in _merged.columns(
        bins.sorted("name", "step", "position"), "name", "step", "value"
    ):
        found[name, step].append(height)
    return found


def _only(row: dict[str, float]) -> float:
    """Return the one element of a tensor."""
    if row["nan"]:
        return float("nan")
    if row["posinf"] or row["neginf"]:
        return float("inf") if row["posinf"] else float("-inf")
    return float(row["mean"])


_MASK_DELTA = 0xA282EAD8


def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        found.append(byte)
    return tuple(found)


_CRC = _table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked_crc(data: bytes) -> bytes:
    """Return the checksum as a record holds it: rotated, and moved by a constant."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)


class EventFile:
    """Writes scalars and histograms to one file, in the order in which they are given."""

    def __init__(self, file: BinaryIO, wall_time: float) -> None:
        """Begin a file, opened to write bytes; `wall_time` is when it begins, seconds since the epoch."""
        self._file = file
        self._record(double_field(1, wall_time) + bytes_field(3, b"brain.Event:2"))

    def scalar(self, tag: str, step: int, wall_time: float, value: float) -> None:
        """Add one number; NaN and infinities are kept as they are."""
        self._summary(step, wall_time, text_field(1, tag) + float_field(2, value))

    def histogram(
        self,
        tag: str,
        step: int,
        wall_time: float,
        edges: Sequence[float],
        counts: Sequence[float],
        *,
        total: float,
        squares: float,
    ) -> None:
        """Add one histogram: edges of bins, elements of each bin, the sum and the squares' sum of values."""
        message = (
            double_field(1, edges[0])
            + double_field(2, edges[-1])
            + double_field(3, float(sum(counts)))
            + double_field(4, total)
            + double_field(5, squares)
            + bytes_field(6, struct.pack(f"<{len(counts)}d", *edges[1:]))
            + bytes_field(7, struct.pack(f"<{len(counts)}d", *counts))
        )
        self._summary(step, wall_time, text_field(1, tag) + bytes_field(5, message))

    def value(self, step: int, wall_time: float, value: bytes) -> None:
        """Add one encoded `Summary.Value`."""
        self._summary(step, wall_time, value)

    def _summary(self, step: int, wall_time: float, value: bytes) -> None:
        self._record(
            double_field(1, wall_time) + number_field(2, step) + bytes_field(5, bytes_field(1, value))
        )

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self._file.write(length + masked_crc(length) + data + masked_crc(data))
