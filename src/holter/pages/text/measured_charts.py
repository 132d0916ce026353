"""Charts of what the profiler's rules measured: boxes, histograms and shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.views import figure
from holter.views.figure import Axis, Figure, Series
from holter.views.wording import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST = 8
"""Histograms of one kind that stand side by side; the rest is in tables."""
_MOST_BOXES = 64
_MOST_SHARES = 15
_SHARE = Axis("share", "%")
_SHARES = {
    "phase": "Modes",
    "forward_backward": "Forward and backward",
    "general": "Parts of a step",
    "CPU": "Operators on the CPU",
    "GPU": "Operators on GPUs",
    "ratio": "CPU and GPUs",
    "horovod": "Horovod",
}


def times(title: str, histogram: Mapping[str, Any], what: str = "steps") -> Figure:
    """Draw a histogram of durations, ms: `counts` in equal bins `from` … `to`."""
    return _histogram(title, histogram["counts"], histogram["from"], histogram["to"], "duration", "ms", what)


def load(device: str, counts: Sequence[int]) -> Figure:
    """Draw how often a GPU was how busy."""
    return _histogram(f"Load of {device}", counts, 0.0, 100.0, "busy", "%", "readings")


def _histogram(
    title: str, counts: Sequence[int], low: float, high: float, axis: str, unit: str, what: str
) -> Figure:
    edges = [low + (high - low) * at / len(counts) for at in range(len(counts) + 1)]
    series = [Series(what, [float(count) for count in counts])]
    return Figure(
        title=title, kind="bars", x=edges, x_axis=Axis(axis, unit), y_axis=Axis(what), series=series
    )


def boxes(title: str, found: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw the spread of readings of each device, percent."""
    names = ("lower", "p25", "p50", "p75", "upper")
    return Figure(
        title=title,
        kind="boxes",
        x=["lower whisker", "lower quartile", "median", "upper quartile", "upper whisker"],
        x_axis=Axis("device"),
        y_axis=Axis("of the last readings", "%", top=100.0),
        series=[
            Series(key, [box.get(name) for name in names]) for key, box in list(found.items())[:_MOST_BOXES]
        ],
        note="A box holds the middle half of the readings, its line is the median; whiskers reach 1.5 times "
        "the box's length, as far as there are readings.",
    )


def shares(when: str, found: Mapping[str, Mapping[str, float]]) -> Iterator[Figure]:
    """Draw what ran at some time: modes, passes, parts, operators."""
    for key, title in _SHARES.items():
        parts = [(name, share) for name, share in (found.get(key) or {}).items() if share][:_MOST_SHARES]
        if len(parts) > 1:
            yield figure.shares(
                f"{title} {when}".strip(), {words(name): share for name, share in parts}, _SHARE
            )


def snapshots(node: str, count: int, low: int, bad: int, gpu: str, core: str) -> Figure:
    """Draw in which share of snapshots a GPU was low, and the CPU at fault."""
    parts = {"no GPU low": count - low, f"a GPU {gpu}": low - bad, f"a GPU {gpu}, {core}": bad}
    shares = {name: 100 * part / count for name, part in parts.items()}
    return figure.shares(f"Snapshots of {node}", shares, _SHARE)
