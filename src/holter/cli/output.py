"""How things look in a terminal: width, color, plain ASCII where needed, numbers with units, JSON."""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDEST = 100
_ASCII = str.maketrans(
    {
        "█": "#",
        "▓": "=",
        "▒": ":",
        "░": ".",
        "▚": "%",
        "▞": "/",
        "▌": "|",
        "▄": "_",
        "▖": ",",
        "≡": "+",
        "·": "-",
        "→": "->",
        "…": "...",
        "─": "-",
        "≤": "<=",
        "≥": ">=",
    }
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
