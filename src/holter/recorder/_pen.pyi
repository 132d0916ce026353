"""What `pen.c`, `steps.c` and `usual.c` compile to; `hotpath` and `usual` say what it does."""

from holter.recorder.frameworks.pytorch.usual import At as At
from holter.recorder.frameworks.pytorch.usual import Usual as Usual
from holter.recorder.hotpath import Pen as Pen
from holter.recorder.hotpath import Steps as Steps

INTERFACE: int
