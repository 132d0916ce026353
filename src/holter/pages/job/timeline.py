"""The page with the timeline of threads, streams, counters and machine metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from holter.drawing.figure import figure
from holter.drawing.markup import html, tag
from holter.pages.forms import number
from holter.pages.islands import island
from holter.pages.text.sections import bullets, table
from holter.pages.timelines import TIMELINES
from holter.views.timeline.summary import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.pages.timelines import Opened
    from holter.views.reading import Reading

TITLE = "Timeline"
SHOWN = 50
_MOST = 200
_MISSING = "This job has no events: no step, no operator, no kernel. `holter run` records the steps."
_EMPTY = html(
    tag("h1", "Timeline"),
    tag("p", "This job has no events yet: no step, no operator, no kernel."),
    bullets(
        (
            "`holter run` records the steps of every rank and their parts.",
            "Operators and kernels come from a profiling window: `holter profile JOB` while it runs, or "
            "`holter run --profile-steps 10:12 -- python train.py`.",
            "`holter import trace.json.gz` imports a trace of another profiler (PyTorch, TensorFlow, JAX, "
            "Nsight Systems, Horovod …).",
        )
    ),
)


def missing(reading: Reading) -> str | None:
    """Say how to record events."""
    if any(
        reading.trial.newest(name) is not None
        for name in ("spans", "steps", "operators", "kernels", "samples")
    ):
        return None
    return _MISSING


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    folder = reading.trial.folder
    quick = TIMELINES.quick(folder) or asked.get("picture") == "yes"
    opened = TIMELINES.of(folder, warm=not rendering.standalone) if quick else None
    if opened is not None and not opened.timeline.lanes:
        return _EMPTY

    def paint() -> Markup:
        if opened is None:
            here = f"?{urlencode({**asked, 'picture': 'yes'})}"
            return tag(
                "p",
                "The timeline is being loaded. The first view of millions of events takes some seconds. ",
                tag("a", "Show it without JavaScript.", href=here),
                class_="note",
                role="status",
            )
        return figure(whole(opened.timeline, opened.origin_ns)) + _listed(opened, number(asked, "rank"))

    return html(tag("h1", "Timeline"), island(rendering, "timeline", paint))


def _listed(opened: Opened, rank: int | None) -> Markup:
    """Show as table."""
    lanes = [lane for lane in opened.timeline.lanes if rank in (None, lane.rank)]
    rows = [
        (
            lane.node,
            str(lane.rank),
            f"{lane.kind.replace('_', ' ')} {lane.track}",
            f"{lane.events:,}",
            f"{(lane.start - opened.origin_ns) / 1e9:,.3f}",
            f"{(lane.end - opened.origin_ns) / 1e9:,.3f}",
        )
        for lane in lanes[:_MOST]
    ]
    more = (
        tag("p", f"{len(lanes) - _MOST:,} more are not listed.", class_="note") if len(lanes) > _MOST else ""
    )
    heads = ("node", "rank", "track", "events", "from, s", "to, s")
    return tag("details", tag("summary", "Tracks"), table(heads, rows, numbers=range(3, 6)), more)
