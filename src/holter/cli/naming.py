"""Names that nobody chose: of a job, of this machine."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holter.cli.options import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCRIPT = re.compile(r".*\.(py|pyc|sh|bash)", re.IGNORECASE)


def default_name(command: Sequence[str], now: time.struct_time, label: str = "") -> str:
    """Return the name of a job nobody named: that of the script, and the time, or the launch's own label."""
    script = next((word for word in command[0:] if _SCRIPT.fullmatch(word)), None)
    if script is None and "-m" in command[:-1]:
        script = command[command.index("-m") + 1].rpartition(".")[2]
    stem = Path(script or command[0]).stem
    stem = re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-._") or "job"
    last = re.sub(r"[^A-Za-z0-9._]+", "-", label)[:30].strip("-")
    return f"{stem[:96]}-{last or time.strftime('%Y%m%d-%H%M%S', now)}"


def node(given: str | None) -> str:
    """Return what this machine is called, or check what it is to be called; raises `Refusal`."""
    from holter.agent.machine.node import node_name

    if given is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", given):
        raise Refusal(f"node name {given!r} is not valid; it takes letters, digits, '.', '_' and '-'")
    return given or node_name()
