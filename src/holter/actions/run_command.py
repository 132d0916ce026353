"""Run a command, without a shell, with the finding as JSON on its standard input."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
from dataclasses import dataclass
from typing import Any

from holter.actions import Action, ActionFailed, BadAction, Limits, Occasion, Secrets, parameter
from holter.actions._words import document

_SAID = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Action):
    """Start a program of the user; its exit code shows success or failure."""

    description = "runs a command with the finding as JSON on its standard input"
    also_called = (
        "exec",
        "command",
    )
    needs_arming = True
    limits = Limits(retries=0)

    argv: tuple[str, ...] = parameter(())
    """The program and its arguments; a text is split as in a shell, but no shell runs."""
    timeout_s: float = parameter(60.0, above=0, high=3600, unit="s")
    """The time after which it and its child processes are killed."""

    def __post_init__(self) -> None:
        given: Any = self.argv
        if isinstance(given, str):
            try:
                given = tuple(shlex.split(given))
            except ValueError as error:
                raise BadAction(f"run_command: argv={self.argv!r} cannot be split: {error}") from None
            object.__setattr__(self, "argv", given)
        Action.__post_init__(self)
        if not self.argv:
            raise BadAction("run_command: argv is missing; write run_command:argv='./notify.sh --loud'")

    def check(self, secrets: Secrets) -> None:
        """Refuse a program that does not exist."""
        if shutil.which(self.argv[0]) is None:
            raise BadAction(f"run_command: {self.argv[0]!r} is no program that can be run")

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Run the program to its end."""
        try:
            process = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ActionFailed(f"{self.argv[0]}: {error.strerror}") from None
        given = json.dumps(document(occasion)).encode()
        try:
            _, errors = process.communicate(given, timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
            raise ActionFailed(f"killed after {self.timeout_s:g} s") from None
        finally:
            if process.stderr is not None:
                process.stderr.close()
        if process.returncode:
            lines = errors.decode(errors="replace").strip().splitlines()
            last = f": {lines[-1][:_SAID]}" if lines else ""
            raise ActionFailed(f"exit code {process.returncode}{last}")
        return "exit code 0"
