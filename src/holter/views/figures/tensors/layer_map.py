"""Heat map of one statistic of every layer over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import capitalized
from holter.store.parquet.queries import literal
from holter.views.figure import Axis, Figure, Series
from holter.views.figures.tensors._statistics import IN_PARTS, over_steps
from holter.views.tensors import statistic as statistic_of

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = (
    "No tensor of that kind has this statistic. `holter run --save gradients@100` saves gradients, "
    "`weights@100` weights and their updates, `activations@100:active` which units were ever active. "
    f"{IN_PARTS}"
)
MOST = 300
_ROLES = {"l2": "grad", "abs_mean": "grad"}
"""What a map is of when nobody says: norms are wanted of gradients."""


def draw(
    reading: Reading,
    *,
    statistic: str | None = None,
    role: str | None = None,
    search: str | None = None,
    rank: int | None = None,
    mode: str | None = None,
) -> Figure | None:
    """Draw a row for each tensor, in the model's order, and a column for each saved step."""
    of = statistic_of(statistic or "l2")
    role = role if role is not None else _ROLES.get(statistic or "l2", "")
    where = "".join(f" AND contains(lower(name), {literal(word.lower())})" for word in (search or "").split())
    if role and role != "any" and of.table == "tensors":
        where += f" AND (role = {literal(role)} OR starts_with(role, {literal(role + ':')}))"
    x, found, ranks = over_steps(reading, of, f"true{where}", rank=rank, mode=mode or "train")
    if not found and not mode:
        x, found, ranks = over_steps(reading, of, f"true{where}", rank=rank)
    if not found:
        return None
    left_out = len(found) - MOST
    return Figure(
        title=f"{capitalized(of.label)}, layer by layer",
        kind="heatmap",
        x=x,
        x_axis=Axis("step"),
        y_axis=Axis(of.label, of.unit, log=of.log),
        series=[Series(name, column) for (name, _), column in list(found.items())[:MOST]],
        note="Light is much"
        + (", on a logarithmic scale; a gap is 0, or nothing." if of.log else "; a gap is nothing.")
        + (f" {left_out:,} more tensors are not drawn." if left_out > 0 else "")
        + (f" {ranks}" if ranks else ""),
    )
