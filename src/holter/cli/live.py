"""What `holter run` says while the command runs, so that nothing of the job ever waits for a terminal."""

from __future__ import annotations

import contextlib
import sys
import threading

from holter.cli import options
from holter.cli.output import clean


def say(text: str) -> None:
    """Print one line to standard error from a thread of its own: a pipe that nobody reads blocks for ever."""
    threading.Thread(target=_print, args=(text,), name="holter-live", daemon=True).start()


def _print(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # closed
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")  # a progress bar draws itself anew
        options.warn(clean(text))
        sys.stderr.flush()
