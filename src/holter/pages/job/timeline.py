"""What every thread, stream and counter did, event by event, beside the machine's own readings."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from holter.drawing.figure import figure
from holter.pages.islands import island
from holter.pages.text.sections import table
from holter.pages.timelines import TIMELINES
from holter.views.timeline.summary import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.pages.timelines import Opened
    from holter.views.reading import Reading

TITLE = "Timeline"
SHOWN = 50
_MOST = 200
_EMPTY = (
    "<h1>Timeline</h1><p>This job has no events yet: no step, no operator, no kernel.</p><ul>"
    "<li>A training that <code>holter run</code> records has its steps and their parts, of every rank.</li>"
    "<li>Operators and kernels come from a profiling window: <code>holter profile JOB</code> while it runs, "
    "or <code>holter run --profile-steps 10:12 -- python train.py</code>.</li>"
    "<li>A trace of another profiler becomes a job: <code>holter import trace.json.gz</code>; PyTorch, "
    "TensorFlow, JAX, Nsight Systems, Horovod and others.</li></ul>"
)


def draw(reading: Reading, asked: Mapping[str, str]) -> str:
    """Draw the page."""
    folder = reading.trial.folder
    quick = TIMELINES.quick(folder) or asked.get("picture") == "yes"
    opened = TIMELINES.of(folder) if quick else None
    if opened is not None and not opened.timeline.lanes:
        return _EMPTY

    def paint() -> str:
        if opened is None:
            here = escape(f"?{urlencode({**asked, 'picture': 'yes'})}", quote=True)
            return (
                '<p class="note" role="status">The timeline is being loaded. The first time that somebody '
                "looks at millions of events takes some seconds, for pictures of every zoom are made. "
                f'<a href="{here}">Draw it without scripts.</a></p>'
            )
        return figure(whole(opened.timeline, opened.origin_ns)) + _listed(opened)

    return f"<h1>Timeline</h1>{island('timeline', paint)}"


def _listed(opened: Opened) -> str:
    """The same as a table."""
    lanes = opened.timeline.lanes
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
    more = f'<p class="note">{len(lanes) - _MOST:,} more are not listed.</p>' if len(lanes) > _MOST else ""
    heads = ("node", "rank", "track", "events", "from, s", "to, s")
    return f"<details><summary>Tracks</summary>{table(heads, rows, numbers=range(3, 6))}{more}</details>"
