"""What `pen.c` compiles to; its methods are those of `hotpath.Pen`."""

from holter.recorder.hotpath import Pen as Pen

INTERFACE: int
