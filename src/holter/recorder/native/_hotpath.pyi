"""Types of the compiled hot path; `spool.hotpath` and `stepping.step_hooks` hold the Python twins."""

from holter.recorder.frameworks.pytorch.stepping.step_hooks import StepHooks as StepHooks
from holter.recorder.frameworks.pytorch.stepping.step_hooks import ThreadState as ThreadState
from holter.recorder.spool.hotpath import SpanWriter as SpanWriter
from holter.recorder.spool.hotpath import StepCounter as StepCounter

INTERFACE: int
