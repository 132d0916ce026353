"""Finds the function that calls a model or a function of torch: the innermost one outside of torch."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from holter import recorder
from holter.recorder.sampling.frames import file_text

if TYPE_CHECKING:
    from types import FrameType


class Callers:
    """Passes over the frames of torch and of the recorder."""

    def __init__(self, torch: Any) -> None:
        self._passed = (os.path.join(*torch.__path__, ""), os.path.dirname(recorder.__file__))

    def frame(self) -> FrameType | None:
        """Return the frame of the caller; None if a callback of torch has none."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(self._passed):
            frame = frame.f_back
        return frame


def line(frame: FrameType) -> str:
    """Return file and line, `train.py:5`."""
    return f"{os.path.basename(file_text(frame.f_code.co_filename))}:{frame.f_lineno}"


def function(frame: FrameType) -> str:
    """Return the name of the function, with its class from Python 3.11 on."""
    return getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
