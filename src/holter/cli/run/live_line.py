"""Shows a running job in the last line of the terminal, below the output of its command.

The terminal scrolls the lines above only (a scroll region, as with the progress bar of apt), so the command
writes as if the terminal had one line less. Nothing is shown if standard error is not a terminal.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli import output
from holter.store.place import LocalPlace
from holter.views.wording import duration, issue_text, milliseconds, rate, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.agent.drain.recent import JobNow, RecentRecords
    from holter.store.job import JobFolder

EVERY_S = 1.0
ISSUES_EVERY_S = 3.0
"""Five times as rare where each look is a request to an object store."""
LEAST_ROWS, LEAST_COLUMNS = 5, 40
LONG_S = 5.0
"""A phase that has been open for longer is named."""
_PATIENCE_S = 1.0
"""A terminal that is stopped (Ctrl-S) blocks the thread that writes to it; nobody waits for longer."""


def wanted() -> bool:
    """Return whether standard error is a terminal that scrolls, and no pager reads standard output."""
    if os.environ.get("TERM", "dumb") == "dumb" or not sys.stderr.isatty():
        return False
    with contextlib.suppress(OSError, ValueError):
        return not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    return False


class LiveLine:
    """The line of one job. The agent fills `recent`; `tell` prints a line above this one."""

    def __init__(
        self,
        folder: JobFolder,
        recent: RecentRecords,
        tell: Callable[[str], None],
        total: int | None,
    ) -> None:
        self._folder = folder
        self._recent = recent
        self._tell = tell
        self._total = total
        self._began = time.monotonic()
        self._told: set[str] = set()
        self._looked = 0.0
        self._size: os.terminal_size | None = None
        """The size of the terminal whose last line is taken; None while none is."""
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holter-live", daemon=True)

    def __enter__(self) -> LiveLine:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(_PATIENCE_S)
        self.pause()

    def pause(self) -> None:
        """Give the last line back to the terminal; the next look takes it again, unless this is the end."""
        if self._lock.acquire(timeout=_PATIENCE_S):
            try:
                self._release()
            finally:
                self._lock.release()

    def _run(self) -> None:
        while not self._end.wait(EVERY_S):
            try:
                self._find()
                with self._lock:
                    if not self._end.is_set():
                        self._draw()
            except OSError:
                return  # the terminal is gone
            except Exception as error:  # the line is not worth a fault of the job
                output.warn(f"the live line ends: {type(error).__name__}: {error}")
                self.pause()
                return

    def _find(self) -> None:
        """Report what the rules found since the last look."""
        every_s = ISSUES_EVERY_S * (1 if isinstance(self._folder.place, LocalPlace) else 5)
        if time.monotonic() - self._looked < every_s:
            return
        self._looked = time.monotonic()
        from holter.views.issues import ordered

        rules = self._folder.evaluations().get("rules") or []
        for one in ordered(rules):
            if one.severity != "info" and one.rule not in self._told:
                self._told.add(one.rule)
                self._tell(f"{one.severity}: {issue_text(one)}")

    def _draw(self) -> None:
        descriptor = sys.stderr.fileno()
        if os.tcgetpgrp(descriptor) != os.getpgrp():
            self._release()  # the job runs in the background, and the shell owns the terminal
            return
        size = os.get_terminal_size(descriptor)
        if size.lines < LEAST_ROWS or size.columns < LEAST_COLUMNS:
            self._release()
            return
        take = ""
        if size != self._size:
            # Scroll once, so that the cursor is above the last line. Setting the region moves the cursor.
            take = f"\x1b7\x1b[r\x1b8\n\x1b7\x1b[1;{size.lines - 1}r\x1b8\x1b[1A"
            self._size = size
        seconds = time.monotonic() - self._began
        told = line(self._recent.now, seconds, self._total, len(self._told), size.columns)
        text = output.plain(output.clean(told), sys.stderr)[: size.columns]
        _write(descriptor, f"{take}\x1b7\x1b[{size.lines};1H\x1b[2K\x1b[2m{text}\x1b[0m\x1b8")

    def _release(self) -> None:
        if self._size is None:
            return
        rows, self._size = self._size.lines, None
        with contextlib.suppress(OSError):
            _write(sys.stderr.fileno(), f"\x1b7\x1b[{rows};1H\x1b[2K\x1b[r\x1b8")


def _write(descriptor: int, text: str) -> None:
    """Write at once, so that nothing of the command comes between."""
    sys.stderr.flush()
    os.write(descriptor, text.encode(sys.stderr.encoding or "utf-8", "replace"))


def line(now: JobNow, seconds: float, total: int | None, issues: int, width: int) -> str:
    """Return the line: the step, the rate, the time left, issues, and as many parts of a step as fit."""
    from holter.analysis.steps.breakdown import breakdown
    from holter.cli.run.pace import recent_steps

    total = total or now.planned
    said = [f"{duration(seconds)}, no training step yet"]
    if now.step >= 0:
        said = [f"step {now.step + 1:,}" + (f" of {total:,}" if total else "")]
    steps, each_s = recent_steps(now)
    split: dict[str, float] = {}
    if each_s is not None:
        said += [f"{rate(1 / each_s)}/s", milliseconds(1e3 * each_s)]
        if total and now.step < total:
            said.append(f"{duration((total - now.step - 1) * each_s)} left")
        split = breakdown(steps, steps["duration"] >= 0)
    open_s = time.time() - now.since / 1e9
    if now.phase and open_s > LONG_S:
        said.append(f"in {words(now.phase)} for {duration(open_s)}")
    if issues:
        said.append(counted(issues, "issue"))
    text = "holter · " + " · ".join(said)
    separator = " · "
    for name, share in sorted(split.items(), key=lambda one: -one[1]):
        part = f"{separator}{words(name)} {share:.0f} %"
        if share < 1 or len(text) + len(part) > width:
            break
        text, separator = text + part, ", "
    return text
