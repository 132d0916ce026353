"""The machines: processors, network, GPUs and their memory, device by device, and what training did."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from holter.pages.addresses import KEPT
from holter.pages.alone import ALONE
from holter.pages.islands import chart, charts, heatmap, island
from holter.pages.text.sections import machine
from holter.views.document.devices import devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holter.views.reading import Reading

TITLE = "Nodes"
SHOWN = 20
OF_DEVICES = {
    "cores": ("cores", "cpu.core.util"),
    "gpus": ("gpus", "gpu.util"),
    "gpu_memory": ("gpus", "gpu.util"),
}
"""Charts of which a reader marks devices: under which word, and the metric that all of them have."""
_SAID = {"cores": "cores", "gpus": "GPUs"}


def draw(reading: Reading, asked: Mapping[str, str]) -> str:
    """Draw the page."""
    names = sorted(reading.trial.nodes)
    node = asked.get("node") if asked.get("node") in names else None
    if not reading.description["utilization"]:
        return (
            "<h1>Nodes</h1><p>No samples of the machine were taken: the job was not started by <code>holter "
            "run</code>, or it was too short. <code>holter doctor</code> says what can be measured here.</p>"
        )
    here = reading.at(reading.window, reading.width, node=node)
    return (
        f"<h1>Nodes</h1>{_choose(names, node, asked)}"
        f"<h2>CPU and network</h2>{_chips(here, 'cores', 'cpu.core.util', asked)}"
        f'<div class="charts">{_chart(here, "cores", asked)}{_chart(here, "network", asked)}'
        f"{_chart(here, 'io_wait', asked)}{_chart(here, 'memory', asked)}{_chart(here, 'disk', asked)}</div>"
        f"<h2>GPU and GPU memory</h2>{_chips(here, 'gpus', 'gpu.util', asked)}"
        f'<div class="charts">{_chart(here, "gpus", asked)}{_chart(here, "gpu_memory", asked)}</div>'
        f"<h2>Every core and GPU</h2>{heatmap(here, node=node)}"
        f"<h2>The machine and the phases of training</h2>{_chart(here, 'utilization', asked)}"
        f"{chart(here, 'phases_over_time')}"
        f"<h2>Time spent in the last steps</h2>{charts(here, 'last_steps')}"
        f"<h2>All readings</h2>{machine(reading.description)}"
    )


def _chart(reading: Reading, name: str, asked: Mapping[str, str]) -> str:
    """Draw a chart of the chosen node, with the devices that are marked for it."""
    group, _ = OF_DEVICES.get(name, ("", ""))
    marked = asked.get(group, "") if group else ""
    chosen = tuple(filter(None, marked.split(",")))
    seen = reading.at(reading.window, reading.width, node=reading.node, devices=chosen)
    return chart(seen, name, node=reading.node, devices=marked if group else None, group=group or None)


def _choose(names: Sequence[str], node: str | None, asked: Mapping[str, str]) -> str:
    if len(names) < 2 or ALONE.get():
        return ""
    options = "".join(
        f"<option{' selected' if name == node else ''}>{escape(name)}</option>" for name in names
    )
    return (
        f'<form class="search">{_kept(asked)}<label>node <select name="node"><option value="">all</option>'
        f"{options}</select></label><button>Show</button></form>"
    )


def _chips(reading: Reading, group: str, metric: str, asked: Mapping[str, str]) -> str:
    """Draw a box to mark for each device; a script makes marking take effect at once."""
    names = devices(reading, metric)
    if len(names) < 2:
        return ""
    marked = set(asked.get(group, "").split(","))
    boxes = "".join(
        f'<label><input type="checkbox" name="{group}" value="{escape(name, quote=True)}"'
        f"{' checked' if name in marked else ''}>{escape(name)}</label>"
        for name in names
    )
    other = [name for name in ("node", "cores", "gpus") if name != group]
    form = f'<form class="chips">{_kept(asked, *other)}{boxes}<button>Show the marked</button></form>'
    if ALONE.get():  # a file has no server to send a form to
        form = f'<div class="chips">{boxes}</div>'
    opened = " open" if len(names) <= 16 else ""
    said = f"{len(names)} {_SAID[group]}: mark those to compare"
    return island("chips", lambda: f"<details{opened}><summary>{said}</summary>{form}</details>", group=group)


def _kept(asked: Mapping[str, str], *more: str) -> str:
    return "".join(
        f'<input type="hidden" name="{name}" value="{escape(asked[name], quote=True)}">'
        for name in ("store", *KEPT, *more)
        if asked.get(name)
    )
