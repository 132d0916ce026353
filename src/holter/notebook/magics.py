"""The magics `%holter` and `%%holter`, and what happens around each cell while cells are recorded."""

from __future__ import annotations

import os
import re
import shlex
import time
from typing import TYPE_CHECKING, Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from holter.notebook.live import LiveOutput, card_of
from holter.recorder import start as recording
from holter.schema.record import ENV_DISABLE

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

USAGE = """%load_ext holter            record the following cells until the kernel ends
%holter start [--job NAME] [--store URL]   begin a new recording
%holter stop               end the recording, and show the job
%holter status             show the job so far
%%holter [--job NAME] [--store URL]        record this cell alone"""
_SESSION = "JPY_SESSION_NAME"
"""Environment variable in which Jupyter tells a kernel the path of its notebook."""


@magics_class
class HolterMagics(Magics):  # type: ignore[misc, unused-ignore]
    """Records cells of a notebook."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell: Any = shell
        self.url = ""
        """The job that is recorded; empty while none is."""
        self._live: LiveOutput | None = None

    @line_cell_magic  # type: ignore[untyped-decorator, unused-ignore]
    def holter(self, line: str, cell: str | None = None) -> None:
        """Record cells: `%holter start`, `%holter stop`, `%holter status`, or `%%holter` for one cell."""
        try:
            words = shlex.split(line)
            if cell is not None:
                self._one_cell(cell, **_options(words))
                return
            what, *rest = words or ["status"]
            if what == "start":
                self.begin(**_options(rest))
            elif what in ("stop", "status") and not rest:
                (self.end if what == "stop" else self._show)()
            else:
                raise ValueError(f"%holter {line} is not known; valid:\n{USAGE}")
        except ValueError as error:
            print(f"holter: {error}")

    def begin(self, job: str | None = None, store: str | None = None, *, alone: bool = False) -> None:
        """Begin to record; says so, or why it is impossible. `alone`: one cell only."""
        if self.url:
            print(f"holter: recording already, as {self.url}; %holter stop ends it")
            return
        from holter.store.job import check_name, store_url

        name, place = job or _default_name(), store_url(store)
        check_name(name)
        if os.environ.get(ENV_DISABLE) == "1":
            print("holter: nothing is recorded, because HOLTER_DISABLE is 1")
            return
        try:
            recording.start(name, place)
        except (RuntimeError, OSError) as error:
            print(f"holter: {error}")
            return
        if not recording.running():
            print("holter: this kernel is recorded already, by the command that started it")
            return
        self.url = f"{place.rstrip('/')}/{name}"
        self._live = LiveOutput(self.url)
        self._shell.events.register("pre_run_cell", self._before)
        self._shell.events.register("post_run_cell", self._after)
        what, until = ("this cell", "") if alone else ("the following cells", "; %holter stop ends it")
        print(f"holter: recording {what} as job {name} into {place}{until}")

    def end(self) -> None:
        """End the recording and show the job."""
        if not self.url:
            print("holter: nothing is recorded; %holter start begins")
            return
        self._shell.events.unregister("pre_run_cell", self._before)
        self._shell.events.unregister("post_run_cell", self._after)
        if self._live is not None:
            self._live.close()
        recording.stop()
        url, self.url, self._live = self.url, "", None
        self._display(url)

    def _one_cell(self, cell: str, **options: Any) -> None:
        if self.url:
            print(f"holter: all cells are recorded already, as {self.url}")
            _pass_on(self._shell.run_cell(cell))
            return
        self.begin(**options, alone=True)
        recorded = bool(self.url)
        try:
            result = self._shell.run_cell(cell)
        finally:
            if recorded:
                self.end()
        _pass_on(result)

    def _show(self) -> None:
        if self.url:
            self._display(self.url)
        else:
            print(f"holter: nothing is recorded\n{USAGE}")

    def _display(self, url: str) -> None:
        found = card_of(url)
        if isinstance(found, str):
            print(f"holter: {found}")
        else:
            cast("Any", display)(found, raw=True)

    def _before(self, _info: Any) -> None:
        """Show the job below the cell if it trains."""
        if self._live is not None:
            self._live.begin_cell()

    def _after(self, _result: Any) -> None:
        if self._live is not None:
            self._live.end_cell()


def _pass_on(result: Any) -> None:
    """Make the cell fail if its code did, so that programs that run notebooks notice; the error was shown."""
    if not result.success:
        error = result.error_before_exec or result.error_in_exec
        raise UsageError(f"the code of this cell raised {type(error).__name__}")


def _options(words: list[str]) -> dict[str, Any]:
    """Read `--job NAME` and `--store URL`. Raises `ValueError`."""
    found: dict[str, str] = {}
    waiting = list(words)
    while waiting:
        name, equals, value = waiting.pop(0).partition("=")
        if name not in ("--job", "--store"):
            raise ValueError(f"{name!r} is not an option; valid: --job NAME, --store URL")
        if not equals and not waiting:
            raise ValueError(f"{name} needs a value")
        found[name[2:]] = value if equals else waiting.pop(0)
    return found


def _default_name() -> str:
    """Return the name of the notebook with the time."""
    stem = os.path.splitext(os.path.basename(os.environ.get(_SESSION, "")))[0]
    stem = re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-._") or "notebook"
    return f"{stem[:96]}-{time.strftime('%Y%m%d-%H%M%S')}"
