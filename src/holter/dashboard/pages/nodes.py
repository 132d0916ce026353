"""The machines: processors, network, GPUs and their memory, device by device, and what training did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.dashboard.islands import chart, island
from holter.report.html import figure
from holter.report.sections import machine
from holter.views.figures import draw as drawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.views.figures import Reading

TITLE = "Nodes"
SHOWN = 20


def draw(reading: Reading, asked: Mapping[str, str]) -> str:
    """Draw the page."""

    def heatmap() -> str:
        of = drawn("devices", reading)
        return f'<p class="note">{of}</p>' if isinstance(of, str) else figure(of)

    return (
        f"<h1>Nodes</h1>{chart(reading, 'utilization')}"
        f"<h2>Cores and GPUs</h2>{island('heatmap', heatmap, figure='devices')}"
        f"<h2>All readings</h2>{machine(reading.description)}"
    )
