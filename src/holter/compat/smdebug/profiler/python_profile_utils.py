"""smdebug's words for when Python was profiled: modes, and parts of a step."""

from __future__ import annotations

from enum import Enum


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


class PythonProfilerName(Enum):
    """Profilers of Python."""

    CPROFILE = "cprofile"
    PYINSTRUMENT = "pyinstrument"


class cProfileTimer(Enum):  # noqa: N801 - smdebug's name
    """What times of cProfile are."""

    TOTAL_TIME = "total_time"
    CPU_TIME = "cpu_time"
    OFF_CPU_TIME = "off_cpu_time"
    DEFAULT = "default"


def mode_of(text: str) -> PythonProfileModes:
    """Return the mode that the name of a folder, or a table of ours, tells; GLOBAL for any other text."""
    told = {mode.name.replace("_", "").lower(): mode for mode in PythonProfileModes}
    return told.get(text.lower(), PythonProfileModes.GLOBAL)
