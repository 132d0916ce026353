"""A job's scalars and histograms as TensorBoard's event files: one file for each mode and rank."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.steps.trainings import begins, told_apart
from holter.report.event_file import EventFile
from holter.report.exports import _merged
from holter.views.tables import steps_of

if TYPE_CHECKING:
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
