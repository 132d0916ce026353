"""The view of kernels: what ran on the GPUs, how much of the time, and why they were idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.kernel_statistics import kernel_table, precision
from holter.drawing.markup import tag
from holter.drawing.pieces import prose
from holter.pages.forms import choice, entry, form, number, picture
from holter.pages.layout import bare, grid
from holter.pages.tables import Number, share_cell, sortable, time_cell
from holter.views.document.profiled import HOW
from holter.views.figures.device._shares import MOST_SECTORS, SECTORS, profiled
from holter.views.wording import plain_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.schema.table import Table
    from holter.views.reading import Reading

TITLE = "Kernels"
SHOWN = 10
_KERNELS = 200


def present(reading: Reading) -> bool:
    """Whether an accelerator's work was recorded."""
    return reading.profiled.ran


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Iterator[Markup]:
    """Draw the view."""
    seen = reading.profiled
    rank, device = number(asked, "rank"), number(asked, "device")
    tables = profiled(reading, rank if seen.ranks else None, device if seen.devices else None)
    if not seen.ran:
        where = "no GPU work was recorded" if seen.ranks else "no profiling window was recorded"
        yield tag("p", "No kernels: ", where, ". ", prose(HOW), class_="empty")
        return
    most = entry(asked, "most", "sectors (k)", kind="number", min=1, max=MOST_SECTORS, default=str(SECTORS))
    devices = [("", "all"), *((str(device), f"GPU {device}") for device in seen.devices)]
    places = choice(asked, "device", "GPU", devices) if seen.devices else ""
    yield form(rendering, asked, "what is shown", places, most, keep=("view",))

    def one(name: str, columns: int = 6) -> Markup:
        return bare(picture(rendering, reading, name, asked), columns=columns)

    table = sortable(rendering,
        "kernels", f"Kernels, the {_KERNELS} that take longest",
        ("kernel", "kind", "precision", "launches", "total", "mean", "shortest", "longest", "share"),
        _kernels(tables),
    )  # fmt: skip
    yield grid(
        one("gpu_active", 4),
        one("gpu_over_time", 8),
        bare(table, columns=12),
        one("kernel_time"),
        one("kernel_time_top"),
        one("kernel_launches"),
        one("kernel_launches_top"),
        one("device_activity"),
        one("idle_reasons"),
        one("kernel_precision"),
        one("launch_delays"),
    )


def _kernels(tables: Mapping[str, Table]) -> Iterator[list[str]]:
    for row in kernel_table(tables, most=_KERNELS).to_rows():
        compute = row["kind"] == "compute"
        yield [
            _named(row["name"]),
            row["kind"],
            precision(row["name"]) if compute else "",
            Number(row["launches"]),
            *(time_cell(row[name]) for name in ("total_ns", "mean_ns", "min_ns", "max_ns")),
            share_cell(row["share_pct"]),
        ]


def _named(name: str) -> str:
    """Return a kernel's short name, which opens to the whole."""
    plain = plain_kernel(name)
    if plain == name:
        return name
    return tag("details", tag("summary", plain), name)
