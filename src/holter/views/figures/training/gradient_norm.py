"""The norm of all gradients together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figures.training._scalars import curves

if TYPE_CHECKING:
    from holter.views.figure import Figure
    from holter.views.reading import Reading

MISSING = "No gradient norm was recorded: there was no optimizer, or the job was not recorded long enough."


def draw(reading: Reading) -> Figure | None:
    """Draw the norm before clipping, and after it where gradients are clipped; parts of ranks as one."""
    names = "name IN ('grad_norm', 'grad_norm_clipped', 'grad_norm/shard')"
    return curves(reading, "Gradient norm", names, "norm", log=True)
