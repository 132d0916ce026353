"""The parts of a timeline that a server and a file both give: its head, its curves and its steps.

All times are whole ns since `origin_ns` of the timeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.pages.data.encoding import encoded
from holter.views.timeline.tree import tree
from holter.views.timeline.values import curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.pages.timelines import Opened
    from holter.views.timeline.tree import TimelineRow


def head_bytes(opened: Opened, again_s: float = 0.0) -> bytes:
    """Return a timeline's version, its range of time, and the tree of its rows.

    `again_s` are the seconds after which a script asks whether the job has grown; 0 for never.
    """
    timeline = opened.timeline
    seconds = opened.trial.manifest.get("end")
    end = max(timeline.end_ns, int(seconds or 0)) - opened.origin_ns
    lanes = {lane.id: number for lane, number in opened.numbers.items()}
    series = {one.id: number for number, one in enumerate(opened.series)}

    def numbered(entry: TimelineRow) -> TimelineRow:
        if "children" in entry:
            return {**entry, "children": [numbered(child) for child in entry["children"]]}
        place = entry.pop("id")
        return {**entry, "lane": lanes[place]} if place in lanes else {**entry, "series": series[place]}

    return encoded(
        {
            "schema": 1,
            "version": opened.version,
            "again_s": again_s,
            "origin_ns": str(opened.origin_ns),
            "events": sum(lane.events for lane in timeline.lanes),
            "from_ns": min(0, timeline.start_ns - opened.origin_ns) if timeline.lanes else 0,
            "to_ns": end if timeline.lanes else 0,
            "tree": [numbered(entry) for entry in tree(timeline)],
        }
    )


def curve_bytes(opened: Opened, numbers: Sequence[int], start: int, end: int, pixels: int) -> bytes:
    """Return counters and metrics, by their numbers, from `start` to `end`, ns since the epoch."""
    reading = opened.timeline.reading
    reading.refresh("samples")  # a running job has new ones, whether it has new events or not
    chosen = [opened.series[number] for number in numbers]
    found = curves(reading, chosen, start, end, pixels=pixels)
    drawn = [
        {
            "series": number,
            "time": (curve.time - opened.origin_ns).tolist(),
            **{part: getattr(curve, part).astype(np.float32).tolist() for part in ("low", "high", "mean")},
            "before": curve.before,
        }
        for number, curve in zip(numbers, found, strict=True)
    ]
    return encoded({"schema": 1, "curves": drawn})


def step_bytes(opened: Opened, start: int, end: int, most: int) -> bytes:
    """Return at most `most` steps from `start` to `end`, ns since the epoch."""
    seen = opened.steps.within(start, end, most)
    columns = (seen.step.tolist(), (seen.time - opened.origin_ns).tolist(), seen.duration.tolist())
    keys = ("step", "time", "duration")
    return encoded(
        {"schema": 1, "steps": [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]}
    )
