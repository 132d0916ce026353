"""The report of a job, section by section."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holter.drawing.figure import figure
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.text import overview, remarks, sections
from holter.pages.text.measured import measured, most_fired
from holter.views.document.bill import bill_lines
from holter.views.figures import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from markupsafe import Markup

    from holter.views.figure import Figure
    from holter.views.reading import Reading

_OF_ACCELERATORS = (
    "gpu_active", "gpu_over_time", "kernel_time", "kernel_launches", "kernel_precision", "device_activity",
    "memory_operations", "idle_reasons", "device_step_histogram", "launch_delays",
)  # fmt: skip


def body(
    reading: Reading, frame: Callable[[str, Figure], str] = lambda _, drawn: figure(drawn)
) -> Iterator[Markup]:
    """Yield the report section by section; `frame` makes HTML of a chart and its name."""
    told = reading.description
    charts = partial(_charts, reading, frame, set())
    yield sections.head(told["job"])
    yield sections.verdict(told)
    yield html(tag("h2", "The job"), sections.job(told), overview.details(told))
    yield from charts("job_phases", "phases_over_time", "losses")
    yield sections.ledger(told["ledger"])
    if told["breakdown"]:
        yield (
            tag("h2", "Where a step's time goes")
            + sections.breakdown(told["breakdown"], told["not_seen"], told["dataloading"])
            + sections.gpu_times(told["gpu_times"])
            + sections.named_work(told["named_work"])
            + sections.own_code(told["own_code"])
            + remarks.division(told, figure)
        )
    elif not told["program"]:
        yield tag("h2", "Steps")
    yield overview.program(told["program"]) or sections.steps(told["steps"])
    yield sections.changes(told["changes"])
    yield from charts("breakdown_over_steps", "step_times", "step_histogram", "data_loading")
    if reading.profiled.ran:
        yield tag("h2", "On the accelerators")
        yield from charts(*_OF_ACCELERATORS)
    yield (
        tag("h2", "The machine") + remarks.load(told["utilization"]) + sections.machine(told["utilization"])
    )
    yield from charts("utilization", "devices", "gpu_boxes")
    if told["operators"]:
        yield html(tag("h2", "Operations that took most time"), overview.operations(told))
    yield (
        tag("h2", "What the rules found")
        + sections.issues(told["rules"], told["job"]["name"])
        + most_fired(told["rules"])
        + sections.rules(told["rules"])
    )
    yield from measured(told, reading.trial, figure)
    yield tag("h2", "Training metrics")
    yield from charts("gradient_norm", "learning_rate", "layer_map")
    if told["bill"]:
        yield (tag("h2", "Cost of the job") + sections.bullets(bill_lines(told["bill"])))
    yield (tag("h2", "Overhead") + sections.cost(told["cost"]))
    if told["skipped"]:
        yield (tag("h2", "Files that could not be read") + sections.skipped(told["skipped"]))


def _charts(
    reading: Reading, frame: Callable[[str, Figure], str], said: set[str], *names: str
) -> Iterator[Markup]:
    """Draw some charts; explain each missing chart, unless the reason is in `said` already."""
    drawn, absent = [], []
    for name in names:
        one = draw(name, reading)
        if isinstance(one, str):
            absent.append(one)
        else:
            drawn.append(frame(name, one))
    if drawn:
        yield tag("div", *drawn, class_="charts")
    for why in dict.fromkeys(absent):
        if why not in said:
            yield tag("p", prose(why), class_="note")
    said.update(absent)
