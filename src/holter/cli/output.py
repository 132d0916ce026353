"""How things look in a terminal: width, color, plain ASCII where needed, numbers with units, JSON."""

from __future__ import annotations

import math
import os
import shutil
import sys
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDEST = 100
_ASCII = str.maketrans(
    {"█": "#", "▓": "=", "▒": "-", "░": ".", "·": "-", "→": "->", "…": "...", "─": "-", "≤": "<=", "≥": ">="}
)


def columns(stream: TextIO) -> int:
    """Return how wide lines on `stream` may be: the terminal's width, never more than 100."""
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        found = shutil.get_terminal_size((WIDEST, 24)).columns
    return max(40, min(WIDEST, found or WIDEST))


def console(stream: TextIO, width: int | None = None) -> Console:
    """Return a console on `stream`: color only on a terminal and without NO_COLOR, never wider than 100."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            # rich would end the interpreter; whoever called knows better what to do.
            raise BrokenPipeError

    return Quiet(
        file=cast("IO[str]", _Plain(stream)),
        width=width or columns(stream),
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        no_color=bool(os.environ.get("NO_COLOR")) or None,
        force_terminal=None,
    )


def plain(text: str, stream: TextIO) -> str:
    """Return `text` as `stream` can write it: other signs for what its encoding lacks."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


class _Plain:
    """A stream that can write everything, as well as its encoding allows."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, with other signs for what the encoding lacks."""
        return self._stream.write(plain(text, self._stream))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def clean(text: str) -> str:
    """Return text that came from a job without control characters: it must not steer the terminal."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def write(console_: Console, text: Text) -> None:
    """Print one prepared line."""
    console_.print(text, no_wrap=True, overflow="ellipsis", crop=True)


def write_json(document: Any) -> None:
    """Print one JSON document on standard output; what is not a number is null."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    sys.stdout.write("\n")


def duration(seconds: float | None) -> str:
    """Write a duration for people: `0.4 s`, `35 s`, `2 min 5 s`, `12 h 3 min`."""
    if seconds is None or math.isnan(seconds):
        return "unknown"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def milliseconds(value: float | None) -> str:
    """Write milliseconds with three digits that matter: `0.52 ms`, `12.4 ms`, `1.24 s`."""
    if value is None or math.isnan(value):
        return "unknown"
    if value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def size(count: float | None) -> str:
    """Write a number of bytes: `512 B`, `1.2 MB`, `40 GB` (powers of 1000)."""
    if count is None or math.isnan(count):
        return "unknown"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def percent(value: float | None) -> str:
    """Write a share: `60 %`, `7.5 %`, `0.04 %`."""
    if value is None or math.isnan(value):
        return "unknown"
    if value and abs(value) < 0.1:
        return f"{value:.2f} %"
    return f"{value:.1f} %"
