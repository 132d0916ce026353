"""The norm of all gradients together, before clipping and after it; parts of ranks count as one."""

from holter.views.figures.training._scalars import curves

MISSING = "No gradient norm was recorded: there was no optimizer, or the job was not recorded long enough."
draw = curves(
    "Gradient norm", "name IN ('grad_norm', 'grad_norm_clipped', 'grad_norm/shard')", "norm", log=True
)
