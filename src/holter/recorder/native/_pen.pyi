"""What `pen.c`, `steps.c` and `usual.c` compile to; `hotpath` and `usual` say what it does."""

from holter.recorder.frameworks.pytorch.stepping.usual import At as At
from holter.recorder.frameworks.pytorch.stepping.usual import Usual as Usual
from holter.recorder.spool.hotpath import Pen as Pen
from holter.recorder.spool.hotpath import Steps as Steps

INTERFACE: int
