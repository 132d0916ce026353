"""Box plots of each GPU's utilization and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.store.parquet.queries import literal, literals
from holter.views.figure import Axis, Figure, Series
from holter.views.figures._outstanding import outstanding
from holter.views.figures.machine._samples import NO_GPU_SEEN

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = NO_GPU_SEEN
_NAMES = {"gpu.util": "busy", "gpu.mem.used_pct": "memory"}
_MOST = 32
"""Boxes of each of the two: more are too many to look through."""


def draw(reading: Reading) -> Figure | None:
    """Draw least, quartiles and greatest reading of every GPU."""
    of_node = "true" if reading.node is None else f"node = {literal(reading.node)}"
    table = reading.trial.sql(
        "SELECT node, device, metric, min(value) AS least, quantile_cont(value, 0.25) AS lower, "  # noqa: S608
        "quantile_cont(value, 0.5) AS middle, quantile_cont(value, 0.75) AS upper, max(value) AS greatest "
        f"FROM samples WHERE metric IN ({literals(_NAMES)}) AND NOT isnan(value) AND {of_node} "
        f"AND {reading.inside} "
        "GROUP BY ALL ORDER BY metric DESC, node, device",
        **reading.bounds,
    )
    if not table.rows:
        return None
    several = len(reading.trial.nodes) > 1
    drawn: list[Series] = []
    rest = ""
    for metric, name in _NAMES.items():
        boxes = [
            Series(
                f"{row['node'] + ' ' if several else ''}{row['device']} {name}",
                [float(row[key]) for key in ("least", "lower", "middle", "upper", "greatest")],
            )
            for row in table.to_rows()
            if row["metric"] == metric
        ]
        boxes, rest = outstanding(boxes, _MOST, "GPUs")
        drawn += boxes
    return Figure(
        title="GPUs",
        kind="boxes",
        x=["least", "lower quartile", "median", "upper quartile", "greatest"],
        x_axis=Axis("GPU"),
        y_axis=Axis("of all readings", "%", top=100.0),
        series=drawn,
        note="Each box holds the middle half of the readings, its line is the median; whiskers reach to "
        f"the least and the greatest. {rest}".strip(),
    )
