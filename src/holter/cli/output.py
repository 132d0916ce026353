"""Print messages, colored lines and JSON; in ASCII where the stream's encoding lacks a character."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    Line = str | Text | Table
    Section = tuple[str, Iterable[Line]]

WIDEST = 100
_TIE = "\ue000"
"""A character of the private use area, in place of a space at which a line must not break."""
_UNIT = re.compile(r"(?<=\d) (?=%|ns\b|µs\b|ms\b|s\b|kB\b|MB\b|GB\b)")
_PROGRESS_S = 0.5
_ASCII: dict[int, str] = dict(
    zip(map(ord, "█▓▒░▚▞▌▄▖≡▐·─µ→…≤≥"), [*"#=:.%/|_,+*--u", "->", "...", "<=", ">="], strict=True)
)


def columns(stream: TextIO) -> int:
    """Return the width of lines on `stream`: the terminal's width, at most 100."""
    found = _terminal_width(stream) or shutil.get_terminal_size((WIDEST, 24)).columns
    return max(40, min(WIDEST, found or WIDEST))


def _terminal_width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return 0


def console(stream: TextIO, width: int | None = None) -> Console:
    """Return a console on `stream`: colored on a terminal without NO_COLOR, at most 100 columns wide."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            # rich would end the interpreter; the caller handles the error.
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
    """Return `text` with ASCII replacements for characters that the encoding of `stream` lacks."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


class _Plain:
    """A stream that replaces characters that its encoding lacks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, with replacements."""
        return self._stream.write(plain(text, self._stream))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def clean(text: str) -> str:
    """Return text from a job without control characters, which would control the terminal."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def write(console_: Console, text: Text) -> None:
    """Print one line, cut at the width of the console."""
    console_.print(text, no_wrap=True, overflow="ellipsis", crop=True)


def write_sections(out: Console, sections: Iterable[Section]) -> None:
    """Print titles with the lines below them; a section without lines is left out."""
    from rich.text import Text

    separator = ""
    for title, found in sections:
        if lines := list(found):
            write(out, Text(f"{separator}{title}", style="bold"))
            write_lines(out, lines, "  ")
            separator = "\n"


def write_lines(out: Console, lines: Iterable[Line], indent: str) -> None:
    """Print wrapped lines with an indent; a line that begins with spaces is indented further."""
    from rich.text import Text

    for line in lines:
        if not isinstance(line, str | Text):
            out.print(line)
            continue
        text = line if isinstance(line, Text) else Text(line)
        around = indent + " " * (len(text.plain) - len(text.plain.lstrip(" ")))
        text = text[len(around) - len(indent) :]
        text.plain = clean(text.plain)
        for piece in wrap(text, out, out.width - len(around)):
            write(out, Text.assemble(around, piece))


def wrap(text: Text, out: Console, width: int) -> list[Text]:
    """Return the lines of a text; no line breaks between a number and its unit."""
    tied = text.copy()
    tied.plain = _UNIT.sub(_TIE, text.plain)
    lines = list(tied.wrap(out, width))
    for line in lines:
        line.plain = line.plain.replace(_TIE, " ")
        line.rstrip()
    return lines


def write_json(document: Any) -> None:
    """Print one JSON document on standard output; NaN and infinite numbers are null."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    sys.stdout.write("\n")


@contextmanager
def progress_line() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows the file that is read and its share on a terminal; clears the line."""
    shown, live = 0.0, sys.stderr.isatty()

    def show(file: str, done: int, size: int) -> None:
        nonlocal shown
        if live and time.monotonic() - shown >= _PROGRESS_S:
            shown = time.monotonic()
            share = 100 * done // size if size else 100
            print(f"\r\033[Kreading {Path(file).name} {share} %", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def say(line: str) -> None:
    """Print one line to standard output, wrapped to the terminal."""
    print(wrapped(line, sys.stdout))


def warn(text: str, command: str = "") -> None:
    """Print one line to standard error, after `holter` and the command's name, wrapped to the terminal."""
    print(wrapped(f"{f'holter {command}'.rstrip()}: {text}", sys.stderr), file=sys.stderr)


def wrapped(line: str, stream: TextIO) -> str:
    """Return a line, broken between words if `stream` is a narrower terminal."""
    width = _terminal_width(stream)
    if not 0 < width < len(line):
        return line
    return textwrap.fill(
        line, width, subsequent_indent="        ", break_long_words=False, break_on_hyphens=False
    )
