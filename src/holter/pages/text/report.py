"""The report of a job, section by section."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holter.drawing.figure import figure
from holter.drawing.pieces import prose
from holter.pages.text import overview, remarks, sections
from holter.pages.text.measured import measured, most_fired
from holter.views.document.bill import bill_lines
from holter.views.figures import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.views.figure import Figure
    from holter.views.reading import Reading

_OF_ACCELERATORS = (
    "gpu_active", "gpu_over_time", "kernel_time", "kernel_launches", "kernel_precision", "device_activity",
    "memory_operations", "idle_reasons", "device_step_histogram", "launch_delays",
)  # fmt: skip


def body(
    reading: Reading, frame: Callable[[str, Figure], str] = lambda _, drawn: figure(drawn)
) -> Iterator[str]:
    """Yield what the report says, section by section.

    Args:
        reading: The job.
        frame: Makes HTML of a chart and its name.
    """
    told = reading.description
    charts = partial(_charts, reading, frame, set())
    yield sections.head(told)
    yield from sections.verdict(told)
    yield f"<h2>The job</h2>{sections.job(told)}{overview.details(told)}"
    yield from charts("job_phases", "phases_over_time", "losses")
    if told["breakdown"]:
        yield "<h2>Where a step's time goes</h2>" + sections.breakdown(told) + remarks.division(told, figure)
    else:
        yield "<h2>Steps</h2>"
    yield sections.steps(told)
    yield from charts("breakdown_over_steps", "step_times", "step_histogram", "data_loading")
    if reading.profiled.ran:
        yield "<h2>On the accelerators</h2>"
        yield from charts(*_OF_ACCELERATORS)
    yield "<h2>The machine</h2>" + remarks.load(told) + sections.machine(told)
    yield from charts("utilization", "devices", "gpu_boxes")
    if told["operators"]:
        yield f"<h2>Operations that took most time</h2>{overview.operations(told)}"
    yield "<h2>What the rules found</h2>" + sections.issues(told) + most_fired(told) + sections.rules(told)
    yield from measured(told, reading.trial, figure)
    yield "<h2>Numbers of the training</h2>"
    yield from charts("gradient_norm", "learning_rate", "layer_map")
    if told["bill"]:
        yield "<h2>What the job cost</h2>" + sections.bullets(bill_lines(told["bill"]))
    yield "<h2>What holter cost</h2>" + sections.cost(told)
    if told["skipped"]:
        yield "<h2>Files that could not be read</h2>" + sections.skipped(told)


def _charts(
    reading: Reading, frame: Callable[[str, Figure], str], said: set[str], *names: str
) -> Iterator[str]:
    """Draw some charts; of what cannot be drawn say why, unless that was `said` before."""
    drawn, absent = [], []
    for name in names:
        one = draw(name, reading)
        if isinstance(one, str):
            absent.append(one)
        else:
            drawn.append(frame(name, one))
    if drawn:
        yield f'<div class="charts">{"".join(drawn)}</div>'
    for why in dict.fromkeys(absent):
        if why not in said:
            yield f'<p class="note">{prose(why)}</p>'
    said.update(absent)
