"""Threads of the recorder that end before the interpreter does.

A thread that samples stacks holds frames of the training, and with them its tensors. Where it is the last to
hold them, it frees them. If the interpreter ends meanwhile, Python ends the thread inside PyTorch's code, and
C++ aborts the process. The same holds for a thread that waits in a library for a device.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 5.0
"""How long the end of the process waits for all of them; each ends within milliseconds, if it gets a core."""


class BackgroundThreads:
    """The threads of one process."""

    def __init__(self) -> None:
        self._started: list[tuple[threading.Thread, Callable[[], None]]] = []
        self._ended = False

    def start(self, name: str, run: Callable[[], None], stop: Callable[[], None]) -> None:
        """Start a thread, unless the process ends; `stop` asks it to end soon."""
        if self._ended:
            return
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._started = [(each, its) for each, its in self._started if each.is_alive()]
        self._started.append((thread, stop))
        thread.start()

    def end(self) -> None:
        """Ask all threads to end, and wait until they have."""
        self._ended = True
        ending, self._started = self._started, []
        for _, stop in ending:
            stop()
        until = time.monotonic() + PATIENCE_S
        for thread, _ in ending:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def forked(self) -> None:
        """Forget the threads of the parent process."""
        self._started, self._ended = [], False
