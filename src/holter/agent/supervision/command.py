"""Finds the command and starts it as if there were no agent."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from holter.schema.record import ENV_SPOOL

if TYPE_CHECKING:
    from collections.abc import Mapping

BOOTSTRAP = Path(__file__).parents[2] / "recorder" / "bootstrap"
"""The folder that makes every Python child find the recorder."""


class CommandNotFound(ValueError):  # noqa: N818
    """The command to run is missing or cannot be executed."""


def find_command(command: list[str], *, path: str | None = None) -> str:
    """Return the file that a shell would execute for `command`; raises `CommandNotFound`."""
    if not command or not command[0]:
        raise CommandNotFound("no command to run: give one after `--`, as in `holter run -- python train.py`")
    name = command[0]
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    candidates = [name] if "/" in name else [os.path.join(folder or ".", name) for folder in folders]
    unfit = None
    for candidate in candidates:
        if os.path.isdir(candidate):
            unfit = unfit or f"cannot run {name!r}: {candidate} is a folder"
        elif os.path.exists(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            unfit = unfit or f"cannot run {name!r}: {candidate} is not executable{_advice(candidate)}"
    if unfit and "/" in name:
        raise CommandNotFound(unfit)
    if "/" in name:
        near = _near(name, _names(os.path.dirname(name)))
        raise CommandNotFound(f"cannot run {name!r}: there is no such file{near}")
    if os.path.isfile(name):
        raise CommandNotFound(
            f"command {name!r} is not on PATH; there is a file {name!r} here{_advice(name)}"
        )
    raise CommandNotFound(unfit or f"command {name!r} is not on PATH{_near(name, _names(*folders) - {name})}")


def _advice(file: str) -> str:
    runs = {".py": "python", ".sh": "sh"}.get(os.path.splitext(file)[1])
    return f"; run it as: {runs} {shlex.quote(file)}" if runs else ""


def _near(name: str, names: set[str]) -> str:
    near = difflib.get_close_matches(os.path.basename(name), sorted(names), n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near else ""


def _names(*folders: str) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            found.update(os.listdir(folder or "."))
    return found


def environment(spool: Path | None, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the command: the recorder is found first, nothing else changes."""
    variables = dict(os.environ if given is None else given)
    if spool is None:
        variables.pop(ENV_SPOOL, None)
        return variables
    variables[ENV_SPOOL] = str(spool)
    before = variables.get("PYTHONPATH", "")
    # An empty entry would mean the current folder, so none may arise.
    variables["PYTHONPATH"] = f"{BOOTSTRAP}{os.pathsep}{before}" if before else str(BOOTSTRAP)
    return variables


def spawn(
    executable: str,
    command: list[str],
    variables: Mapping[str, str],
    *,
    mask: set[signal.Signals] | set[int],
    told: bytes | None = None,
    output: int | None = None,
) -> int:
    """Start a process with our stdin, stdout and stderr, and return its pid.

    It stays in our process group: the terminal's Ctrl-C, Ctrl-Z and hang-up reach it as they reach any
    command of a shell, it may read from the terminal, and a pipe to a pager works.

    Args:
        executable: The file to run.
        command: Its name and arguments.
        variables: Its environment.
        mask: The signals that it starts with blocked.
        told: Standard input of a companion of the agent, which gets its own session.
        output: Descriptor to write to instead of our stdout and stderr.

    Raises:
        OSError: The process cannot be started.
    """
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = []
    given = None
    if told is not None:
        given = os.memfd_create("told")
        os.write(given, told)
        os.lseek(given, 0, os.SEEK_SET)
        actions.append((os.POSIX_SPAWN_DUP2, given, 0))
    if output is not None:
        actions += [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]

    def start(file: str, words: list[str]) -> int:
        return os.posix_spawn(
            file,
            words,
            dict(variables),
            file_actions=actions,
            setsid=told is not None,
            setsigmask=mask,
            # Python ignores these two; what it starts should not.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )

    try:
        return start(executable, list(command))
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without its first line: shells run it themselves.
        return start("/bin/sh", ["/bin/sh", executable, *command[1:]])
    finally:
        if given is not None:
            os.close(given)
