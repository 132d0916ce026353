"""The loss, and every logged number whose name contains `loss`."""

from holter.views.figures.training._scalars import curves

MISSING = "No loss was seen. `holter.log(loss=...)` records any number of the training."
draw = curves("Loss", "name ILIKE '%loss%' AND NOT name ILIKE '%loss%scal%'", "loss")
