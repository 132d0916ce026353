"""The page about machines: every core and GPU, CPU, memory, network and disk of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.forms import choice, form, hidden
from holter.pages.islands import chart, island
from holter.pages.layout import bare, card, grid
from holter.pages.text import overview
from holter.pages.text.remarks import load
from holter.pages.text.sections import machine
from holter.views.jobs import RUNNING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.pages.islands import Rendering
    from holter.views.reading import Reading

TITLE = "System"
SHOWN = 30
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
_IMPORTED = "A trace holds no samples of the machine. `holter run` records them together with the training."
_WAITING = "No sample of the machine has arrived so far; the first ones take some seconds."
_OF_MACHINE = {
    "cores": ("cores", "cpu.core.util"),
    "io_wait": ("I/O wait", "cpu.iowait"),
    "memory": ("memory", "mem.used_pct"),
    "network": ("network", "net.rx"),
    "disk": ("disks", "disk.read_bytes"),
}
"""Charts of the machine: what each is called, and how the metrics that it needs begin."""
_SAID = {"cores": "cores", "gpus": "GPUs"}


def missing(reading: Reading) -> str | None:
    """Say how to sample the machine."""
    told = reading.description
    if told["utilization"]:
        return None
    if "imported" in reading.trial.manifest:
        return _IMPORTED
    return _WAITING if told["job"]["status"] in RUNNING else _EMPTY


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    names = sorted(reading.trial.nodes)
    node = asked.get("node") if asked.get("node") in names else None
    if lacking := missing(reading):
        return html(tag("h1", TITLE), tag("p", prose(lacking), class_="empty"))
    here = reading.at(reading.window, reading.width, node=node)
    told = reading.description
    read = {str(row["metric"]) for row in told["utilization"]}

    def one(name: str, *more: object, columns: int = 4) -> Markup:
        return bare(_chart(rendering, here, name, asked), *more, columns=columns)

    there = [
        name for name, (_, begin) in _OF_MACHINE.items() if any(metric.startswith(begin) for metric in read)
    ]
    unread = ", ".join(said for name, (said, _) in _OF_MACHINE.items() if name not in there)
    gpus = (
        card("GPUs", _chips(rendering, here, "gpus", "gpu.util", asked), columns=12),
        one("gpus", columns=6),
        one("gpu_memory", columns=6),
    )
    return html(
        tag("h1", TITLE),
        _choose(rendering, names, node, asked),
        tag("p", f"Not sampled: {unread}.", class_="dim") if unread else None,
        grid(
            bare(chart(rendering, here, "devices", kind="heatmap", node=node), columns=12)
            if {"cores", "network", "disk"} & {*there} or "gpu.util" in read
            else None,
            *(gpus if "gpu.util" in read else ()),
            card("Cores", _chips(rendering, here, "cores", "cpu.core.util", asked), columns=12),
            *(one(name) for name in there),
            one("gpu_boxes") if "gpu.util" in read else None,
            *(one(name) for name in _busy(reading, read, 1 if node else len(names))),
            card("Spread", overview.summary(told, node), columns=12, whole=True),
            card("Remarks", load(told["utilization"]), columns=6, whole=True),
            card(
                "All readings",
                machine([row for row in told["utilization"] if node in (None, row["node"])]),
                columns=6,
                whole=True,
            ),
        ),
    )


def _busy(reading: Reading, read: set[str], nodes: int) -> list[str]:
    """Return the charts of busy time, and those of GPUs only where page Profile has no better ones.

    Those by node would show of one node what the charts of cores and GPUs show.
    """
    gpu = "gpu.util" in read and not reading.profiled.ran
    wanted = {
        "cpu_active": "cpu.util" in read,
        "gpu_active": gpu,
        "cpu_over_time": "cpu.util" in read and (nodes > 1 or "cpu.core.util" not in read),
        "gpu_over_time": gpu and nodes > 1,
    }
    return [name for name, fits in wanted.items() if fits]


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
