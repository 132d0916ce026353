"""Names of signals."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Return `SIGKILL` for 9; `signal 40` of a number that has no name, as most of the real-time ones."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
