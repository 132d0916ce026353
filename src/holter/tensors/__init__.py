"""Read the tensors of a job, running or finished: `holter.open(url).tensors("gradient/.*")`."""

from holter.tensors.completeness import StepState
from holter.tensors.selection import Tensors
from holter.tensors.source import Source
from holter.tensors.tensor import Tensor

__all__ = ["Source", "StepState", "Tensor", "Tensors"]
