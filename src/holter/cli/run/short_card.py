"""The few lines at the end of a command that took no training step: why, and what was recorded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from holter.analysis.verdict.failure import first_line
from holter.cli.naming import command_for
from holter.cli.output import clean, wrapped
from holter.recorder.unsupported import NOT_RECORDED
from holter.schema.signals import signal_name
from holter.views.wording import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.agent.supervision.outcome import Outcome
    from holter.store.documents import Document
    from holter.store.job import JobFolder

_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>\S+)$', re.MULTILINE)
_INSTALLED = re.compile(r"/(site|dist)-packages/|/lib/python3[^/]*/|^<")


def print_short_card(folder: JobFolder, outcome: Outcome, stream: TextIO) -> None:
    """Print the card of a command that took no training step."""
    lines = [] if (ending := _ending(folder, outcome)) is None else [ending]
    lines.append(f"{duration(outcome.duration_s)}; {_why_no_training(folder, outcome)}")
    lines += [
        f"internal error, the command was not touched: {fault['where']}: {fault['error']}"
        for fault in outcome.faults[:2]
    ]
    lines.append(f"only metrics of the machine were recorded: {command_for(folder)}")
    for line in lines:
        print(wrapped(f"holter: {clean(line)}", stream), file=stream)
    stream.flush()


def _ending(folder: JobFolder, outcome: Outcome) -> str | None:
    """Say how the command failed; None when it did not."""
    failed = "the command failed before its first step"
    if outcome.failure is None:
        other = folder.manifest().get("failure")
        if not isinstance(other, dict):
            return None
        return (
            f"the job failed on node {other.get('node')}: {other.get('exception') or other.get('evidence')}"
        )
    if outcome.failure.get("exception"):
        place = _raised_at(folder, outcome.failure)
        return f"{failed}: {first_line(outcome.failure['exception'])}" + (f" in {place}" if place else "")
    if outcome.signal:
        return f"the command was killed by {signal_name(outcome.signal)} before its first step"
    return f"{failed}, with exit code {outcome.exit_code}"


def _why_no_training(folder: JobFolder, outcome: Outcome) -> str:
    if others := list(_other_frameworks(folder)):
        names = " and ".join(others)
        verb, them = ("was", "it") if len(others) == 1 else ("were", "them")
        return f"{names} {verb} imported; holter does not record {them}; mark steps with holter.step()"
    if outcome.failure is not None:
        return "no training step was recorded"
    if outcome.processes:
        return "no training step was recorded: PyTorch ran no forward pass and no optimizer step"
    return "no training step was recorded: PyTorch was not imported, or is hidden (python -I, -E)"


def _other_frameworks(folder: JobFolder) -> Iterator[str]:
    """Yield name and version of each framework that processes of the job imported, other than PyTorch."""
    versions: dict[str, str] = {}
    for row in _events(folder, "imported"):
        versions |= {str(name): str(version or "") for name, version in row.items() if name in NOT_RECORDED}
    for name, version in versions.items():
        yield f"{NOT_RECORDED[name]} {version}".rstrip()


def _raised_at(folder: JobFolder, failure: Mapping[str, object]) -> str:
    """Return function, file and line in the user's own code that raised; empty when it was not recorded."""
    for row in _events(folder, "exception"):
        message = f"{row.get('type')}: {row.get('message')}" if row.get("message") else str(row.get("type"))
        if message.strip() != str(failure["exception"]).strip():
            continue
        frames = list(_FRAME.finditer(str(row.get("traceback") or "")))
        own = [frame for frame in frames if not _INSTALLED.search(frame["file"])]
        if own or frames:
            last = (own or frames)[-1]
            return f"{last['function']} ({Path(last['file']).name}:{last['line']})"
    return ""


def _events(folder: JobFolder, kind: str) -> list[Document]:
    """Return the details of a job's events of one kind; empty when the store cannot be read."""
    from holter.store.trial import Trial
    from holter.views.document.cost import details

    try:
        return details(Trial(folder).table("events"), kind)
    except (OSError, ValueError):
        return []
