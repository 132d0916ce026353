"""Draws a timeline as one chart of each lane's utilization, for print and for readers without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.timeline.busy import busy
from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from holter.views.timeline.lanes import Timeline
    from holter.views.timeline.reading import Lane

MOST = 60


def whole(timeline: Timeline, origin_ns: int, *, width: int = 300) -> Figure:
    """Return a row for each lane, of many those with most events: percent of time that its events take."""
    lanes = timeline.lanes
    if len(lanes) > MOST:
        most = sorted(range(len(lanes)), key=lambda place: -lanes[place].events)[:MOST]
        lanes = [lanes[place] for place in sorted(most)]
    start, end = timeline.start_ns, max(timeline.end_ns, timeline.start_ns + width)
    edges = np.linspace(0, end - start, width + 1).astype(np.int64) + start
    picture = timeline.picture(start, end, pixels=width, lanes=lanes)
    several = len({lane.node for lane in lanes}) > 1
    series = []
    for strip in picture.strips:
        top = strip.depth == 0  # what lies below is part of it
        share = busy(strip.time[top], strip.duration[top], strip.busy[top], edges)
        series.append(Series(_name(strip.lane, several=several), share.tolist()))
    left_out = len(timeline.lanes) - len(lanes)
    return Figure(
        title="The whole timeline",
        kind="heatmap",
        x=((edges[:-1] + edges[1:]) / 2 / 1e9 - origin_ns / 1e9).tolist(),
        x_axis=Axis("time since the start", "s"),
        y_axis=Axis("busy", "%", top=100.0),
        series=series,
        note=f"{left_out:,} tracks with fewer events are not drawn." if left_out > 0 else "",
    )


def _name(lane: Lane, *, several: bool) -> str:
    where = f"{lane.node} " if several else ""
    who = f"rank {lane.rank} " if lane.rank >= 0 else ""
    device = f"GPU {lane.device} " if lane.kind.startswith("stream") and lane.device >= 0 else ""
    return f"{where}{who}{device}{lane.kind.replace('_', ' ')} {lane.track}"
