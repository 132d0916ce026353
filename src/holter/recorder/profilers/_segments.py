"""Segments of a profiled step."""

from __future__ import annotations

import os
from dataclasses import dataclass

RECORDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Folder of the recorder: its own functions are not part of the profile."""


@dataclass(slots=True)
class ProfileSegment:
    """A part of a step, from one cut to the next."""

    step: int
    phase: str
    mode: int
    timer: str
    begin: int = 0
    end: int = 0
