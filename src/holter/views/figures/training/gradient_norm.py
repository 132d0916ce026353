"""The norm of all gradients together, before clipping and after it; parts of ranks count as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.training._scalars import curve

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = "No gradient norm was recorded: there was no optimizer, or the job was not recorded long enough."
_NORMS = "name IN ('grad_norm', 'grad_norm_clipped', 'grad_norm/shard')"


def draw(reading: Reading) -> Figure | None:
    """Draw the norms against the step."""
    return curve(reading, "Gradient norm", _NORMS, "norm", log=True)
