"""The page about machines: CPU, network, GPUs and GPU memory of each node, next to the training phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.islands import chart, charts, island
from holter.pages.job._forms import choice, form, hidden
from holter.pages.text.sections import machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.pages.islands import Rendering
    from holter.views.reading import Reading

TITLE = "Nodes"
SHOWN = 20
OF_DEVICES = {
    "cores": ("cores", "cpu.core.util"),
    "gpus": ("gpus", "gpu.util"),
    "gpu_memory": ("gpus", "gpu.util"),
}
"""Charts whose devices a reader selects: the parameter that names them, and the metric that lists them."""
_EMPTY = (
    "No machine samples were taken: the job was not started by `holter run`, or it was too short. "
    "`holter doctor` says what can be measured here."
)
_SAID = {"cores": "cores", "gpus": "GPUs"}


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    names = sorted(reading.trial.nodes)
    node = asked.get("node") if asked.get("node") in names else None
    if not reading.description["utilization"]:
        return html(
            tag("h1", "Nodes"),
            tag("p", prose(_EMPTY)),
        )
    here = reading.at(reading.window, reading.width, node=node)
    return html(
        tag("h1", "Nodes"),
        _choose(rendering, names, node, asked),
        tag("h2", "CPU and network"),
        _chips(rendering, here, "cores", "cpu.core.util", asked),
        _charts(rendering, here, asked, "cores", "network", "io_wait", "memory", "disk"),
        tag("h2", "GPU and GPU memory"),
        _chips(rendering, here, "gpus", "gpu.util", asked),
        _charts(rendering, here, asked, "gpus", "gpu_memory"),
        tag("h2", "Every core and GPU"),
        chart(rendering, here, "devices", kind="heatmap", node=node),
        tag("h2", "The machine and the phases of training"),
        _chart(rendering, here, "utilization", asked),
        chart(rendering, here, "phases_over_time"),
        tag("h2", "Time spent in the last steps"),
        charts(rendering, here, "last_steps"),
        tag("h2", "All readings"),
        machine(reading.description["utilization"]),
    )


def _charts(rendering: Rendering, reading: Reading, asked: Mapping[str, str], *names: str) -> Markup:
    return tag("div", *(_chart(rendering, reading, name, asked) for name in names), class_="charts")


def _chart(rendering: Rendering, reading: Reading, name: str, asked: Mapping[str, str]) -> Markup:
    """Draw a chart of the chosen node, with the selected devices."""
    group, _ = OF_DEVICES.get(name, ("", ""))
    marked = asked.get(group, "") if group else ""
    chosen = tuple(filter(None, marked.split(",")))
    seen = reading.at(reading.window, reading.width, node=reading.node, devices=chosen)
    return chart(
        rendering, seen, name, node=reading.node, devices=marked if group else None, group=group or None
    )


def _choose(rendering: Rendering, names: Sequence[str], node: str | None, asked: Mapping[str, str]) -> Markup:
    if len(names) < 2:
        return Markup()
    options = [("", "all"), *((name, name) for name in names)]
    return form(rendering, asked, "which node", choice({"node": node or ""}, "node", "node", options))


def _chips(
    rendering: Rendering, reading: Reading, group: str, metric: str, asked: Mapping[str, str]
) -> Markup:
    """Draw a checkbox for each device; a script applies the selection at once."""
    names = reading.sampled_devices(metric)
    if len(names) < 2:
        return Markup()
    marked = set(asked.get(group, "").split(","))
    boxes = [
        tag("label", tag("input", type="checkbox", name=group, value=name, checked=name in marked), name)
        for name in names
    ]
    other = [name for name in ("node", "cores", "gpus") if name != group]
    inside = tag("form", hidden(asked, *other), *boxes, tag("button", "Show selected"), class_="chips")
    if rendering.standalone:  # a file has no server to send a form to
        inside = tag("div", *boxes, class_="chips")
    title = f"{len(names)} {_SAID[group]}: select those to compare"
    details = tag("details", tag("summary", title), inside, open=len(names) <= 16)
    return island(rendering, "chips", lambda: details, group=group)
