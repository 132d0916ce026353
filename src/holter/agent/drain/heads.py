"""Reads the head page of a thread: its open spans, its step, and its dropped records."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from holter.schema import record
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from pathlib import Path

_WORDS = struct.Struct(f"={record.HEAD_SIZE // 8}q")
_PHASES = {int(phase): phase.name.lower() for phase in Phase}
_UNSIGNED = (1 << 64) - 1
_NOT_A_PHASE = {Phase.STEP, Phase.ANNOTATION}


class OpenSpan(NamedTuple):
    """A span that has begun and not ended."""

    begin: int
    """Monotonic ns."""
    phase: int
    name: int
    """Id of the name, in its process."""

    @property
    def phase_name(self) -> str:
        """The phase as tables store it."""
        return _PHASES.get(self.phase, f"phase {self.phase}")


class HeadPage(NamedTuple):
    """One reading of a head page."""

    step: int
    dropped: int
    thread: int
    """Native thread id."""
    ident: int
    """The thread as Python's stack dumps name it; 0 when not known."""
    cost_ns: int
    open: tuple[OpenSpan, ...]
    """Outermost first."""

    @property
    def phase(self) -> OpenSpan | None:
        """The innermost open span that is a phase of a step; None when the thread is between phases."""
        return next((span for span in reversed(self.open) if span.phase not in _NOT_A_PHASE), None)


def read_head(path: Path) -> HeadPage | None:
    """Read a head page; None for a missing, incomplete or foreign one."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < record.HEAD_SIZE:
        return None
    words = _WORDS.unpack_from(data)
    if words[0] != record.HEAD_MAGIC or words[record.HEAD_VERSION] != record.SPOOL_VERSION:
        return None
    spans = []
    for depth in range(record.MAX_OPEN):
        at = record.HEAD_OPEN + 2 * depth
        begin, packed = words[at], words[at + 1]
        if packed == 0:
            break
        spans.append(OpenSpan(begin, packed & 0xFF, packed >> 8))
    return HeadPage(
        step=words[record.HEAD_STEP],
        dropped=words[record.HEAD_DROPPED],
        thread=words[record.HEAD_THREAD],
        ident=words[record.HEAD_IDENT] & _UNSIGNED,
        cost_ns=words[record.HEAD_COST],
        open=tuple(spans),
    )
