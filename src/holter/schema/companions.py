"""Rules for processes beside the agent: low priority, end with their parent, report of faults."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FAULT = "holter-fault: "
"""How a line begins that tells a fault. Then where, `: `, and what: the agent notes it as holter's, once."""


def stand_by(niceness: int) -> tuple[Callable[[], bool], Callable[[float], object]]:
    """Make this process one that follows a job: training comes first, and who outlives its agent ends.

    Args:
        niceness: How far it gives way, up to 19.

    Returns:
        What says whether to stop, after SIGTERM or SIGINT or once whoever started this is gone; and a wait
        of so many seconds, which such a signal cuts short.
    """
    stop, parent = threading.Event(), os.getppid()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    with contextlib.suppress(OSError):
        os.nice(niceness)
    return lambda: stop.is_set() or os.getppid() != parent, stop.wait
