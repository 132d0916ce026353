"""The learning rate of the optimizer's first group."""

from holter.views.figures.training._scalars import curves

MISSING = "No learning rate was seen: there was no optimizer, or its rate lies on a device."
draw = curves("Learning rate", "name = 'lr'", "learning rate")
