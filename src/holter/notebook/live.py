"""Shows the running job below the cell that trains. A process of its own reads the job, not the kernel."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import Any, cast

from IPython.display import display

from holter.schema.companions import own_command

AFTER_S = 3.0
"""A shorter cell shows nothing."""
EVERY_S = 1.0
_END_S = 5.0
_MOST_S = 120.0

Bundle = dict[str, str]


class LiveOutput:
    """Updates one display for each cell that runs for a while."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._reader: subprocess.Popen[str] | None = None
        self._newest: Bundle | None = None
        self._over = threading.Event()

    def begin_cell(self) -> None:
        """Watch a cell from now on."""
        self._over = threading.Event()
        # Output of a thread belongs to the cell in which the thread began.
        threading.Thread(target=self._watch, args=(self._over,), name="holter-live", daemon=True).start()

    def end_cell(self) -> None:
        """Stop updating the display of this cell."""
        self._over.set()

    def close(self) -> None:
        """End the process that reads the job."""
        self._over.set()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.terminate()
            try:
                reader.wait(_END_S)
            except subprocess.TimeoutExpired:
                reader.kill()

    def _watch(self, over: threading.Event) -> None:
        if over.wait(AFTER_S):
            return
        if self._reader is None or self._reader.poll() is not None:
            self._reader = subprocess.Popen(
                own_command("holter.notebook.reading", self._url),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # an interrupt of the kernel is not for it
            )
            threading.Thread(target=self._read, args=(self._reader,), name="holter-read", daemon=True).start()
        shown: Bundle | None = None
        handle: Any = None
        while True:
            ended = over.wait(EVERY_S)
            if self._newest is not None and self._newest is not shown:
                shown = self._newest
                if handle is None:
                    handle = cast("Any", display)(shown, raw=True, display_id=True)
                else:
                    handle.update(shown, raw=True)
            if ended:
                return

    def _read(self, reader: subprocess.Popen[str]) -> None:
        for line in reader.stdout or ():
            try:
                self._newest = json.loads(line)
            except ValueError:
                continue


def card_of(url: str) -> Bundle | str:
    """Return the card of a job, read by a process of its own, or the reason why there is none."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            own_command("holter.notebook.reading", url, "--once"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_MOST_S,
            check=False,
        )
        found: Bundle = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return (
            f"reading the job took more than {time.monotonic() - began:.0f} s; holter.open({url!r}) shows it"
        )
    except (ValueError, IndexError):
        said = done.stderr.strip().splitlines()
        return f"the job cannot be shown: {said[-1] if said else 'it holds nothing'}"
    return found
