"""smdebug's words for when Python was profiled: modes, and parts of a step."""

from __future__ import annotations

from enum import Enum

from holter.compat.sagemaker.categories import PythonProfiler as PythonProfilerName
from holter.compat.sagemaker.categories import cProfileTimer

__all__ = ["PythonProfileModes", "PythonProfilerName", "StepPhase", "cProfileTimer", "mode_of"]


class PythonProfileModes(Enum):
    """What the training did."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4
    PRE_STEP_ZERO = 5
    POST_HOOK_CLOSE = 6


class StepPhase(Enum):
    """Where in a step something begins or ends."""

    START = "start"
    STEP_START = "stepstart"
    FORWARD_PASS_END = "forwardpassend"  # noqa: S105 - a place in a step
    STEP_END = "stepend"
    END = "end"


def mode_of(text: str) -> PythonProfileModes:
    """Return the mode that the name of a folder, or a table of ours, tells; GLOBAL for any other text."""
    told = {mode.name.replace("_", "").lower(): mode for mode in PythonProfileModes}
    return told.get(text.lower(), PythonProfileModes.GLOBAL)
