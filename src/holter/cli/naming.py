"""Names of jobs, stores and machines, as users write them and as commands show them."""

from __future__ import annotations

import os
import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holter.cli.options import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.job import JobFolder

_SCRIPT = re.compile(r".*\.(py|pyc|sh|bash)", re.IGNORECASE)


def default_name(command: Sequence[str], now: time.struct_time, label: str = "") -> str:
    """Return a job's default name: the script's name, then the launch's label or else the time."""
    script = next((word for word in command if _SCRIPT.fullmatch(word)), None)
    if script is None and "-m" in command[:-1]:
        script = command[command.index("-m") + 1].rpartition(".")[2]
    stem = Path(script or command[0]).stem
    stem = re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-._") or "job"
    last = re.sub(r"[^A-Za-z0-9._]+", "-", label)[:30].strip("-")
    return f"{stem[:96]}-{last or time.strftime('%Y%m%d-%H%M%S', now)}"


def check_node(given: str) -> str:
    """Return a machine's name, checked; raises `Refusal`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", given):
        raise Refusal(f"node name {given!r} is not valid; it takes letters, digits, '.', '_' and '-'")
    return given


def command_for(folder: JobFolder, command: str = "describe") -> str:
    """Return the command line that shows a job from this folder and with this environment."""
    from holter.store.job import store_url

    url = folder.url
    if "://" not in url:
        local = os.path.dirname(os.path.abspath(url)) == os.path.abspath(store_url())
        near = os.path.relpath(url)
        # A bare name would be looked up in the default store.
        inside = near if "/" in near else f"./{near}"
        url = folder.name if local else url if near.startswith("..") else inside
    return f"holter {command} {shlex.quote(url)}"


def store_of(folder: JobFolder) -> str:
    """Return the store that holds this job, relative to this folder where it lies below it."""
    store = os.path.dirname(folder.url)
    near = store if "://" in store else os.path.relpath(store)
    return store if near.startswith("..") else near
