"""Stream the events of Chrome's trace-event format, as JSON or JSON.gz: in bounded memory, broken files too.

A file is decoded in blocks of some megabytes: a block that is valid once brackets close it was cut between
two events. What is not valid is read event by event by the more lenient parser of the standard library.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from holter.importers.kineto.event_args import TraceEvent
from holter.importers.report import UnreadableError

zlib: Any
try:
    from isal import isal_zlib as zlib  # four times as fast
except ImportError:
    import zlib

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from holter.importers.kineto.usual_events import UsualEvents

BLOCK = 1 << 20
"""Bytes decoded at a time: what they decode to finds room in memory that is in use already."""
LONGEST_EVENT = 1 << 25
"""Bytes of an event, at most."""
LONGEST_HEADER = 1 << 26
"""Bytes before the events, and after them, at most."""
MOST_EXPANSION = 150
"""A compressed file may be so many times as long as it is on disk, once it is longer than a header; real ones
are 10 to 60 times, a bomb 200 to 1000."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""What a text in UTF-16 begins with."""
_BEHIND = 1 << 16
"""Characters that were read and are still kept."""
_FIRST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_LAST = re.compile(rb'\}\s*\](?=\s*,\s*"[^"\n]{1,200}"\s*:|\s*\}?\s*\Z)')
_NEXT = re.compile(r'\{\s*"(?:ph|name|cat|pid|tid|ts|args|dur|id|s|bp)"\s*:')
_BLANKS = re.compile(r"[ \t\r\n,]*")
_TRAILING = re.compile(r",(\s*[}\]])")
_CONTROL = bytes(32 if n < 32 else n for n in range(256))
_LENIENT = json.JSONDecoder(strict=False)
_EVENTS = msgspec.json.Decoder(list[TraceEvent])
_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("ph", "cat", "name"), ()),
    **dict.fromkeys(("pid", "tid", "id"), (int,)),
    **dict.fromkeys(("ts", "dur"), (int, float)),
}
"""What a field of an event may hold besides text."""


def microseconds(value: int | float | str | None) -> int | float | None:
    """Return a time or a duration as a number; None for anything else."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value


class TraceEvents:
    """The events of one file. Iterating yields lists of them, in the order of the file.

    Attributes:
        header: What the file says before and after its events; complete once all were read.
        read: Bytes read of the file as it is on disk.
    """

    def __init__(self, path: Path, skipped: Counter[str], usual: UsualEvents | None = None) -> None:
        """Open a file; `usual` takes the usual events in, and iterating yields the others."""
        self.path = path
        self._usual = usual
        self.header: dict[str, object] = {}
        self.read = 0
        self._skipped = skipped

    def __iter__(self) -> Iterator[list[TraceEvent]]:
        # Whoever frees that much is believed to need it again: from now on the allocator of the C library
        # keeps what blocks are built in, where it would give it back and take it anew, page by page.
        bytearray(16 * BLOCK)
        blocks = self._blocks()
        rest = self._begin(blocks)
        at_end, enough = False, BLOCK
        for block in blocks:
            if at_end:
                rest += block
                if len(rest) > LONGEST_HEADER:
                    self._skipped["text after the events, beyond what is read"] += 1
                    break
                continue
            if len(rest) + len(block) < enough:
                rest += block
                continue
            events, rest, at_end = self._decode(rest, block, last=False)
            enough = max(BLOCK, 2 * len(rest))  # an event longer than a block is not tried again and again
            yield events
        if not at_end:
            events, rest, at_end = self._decode(rest, b"", last=True)
            yield events
        if not at_end:
            self._skipped["the file is cut off before its events end"] += 1
        self._end(rest)

    def _begin(self, blocks: Iterator[bytes]) -> bytes:
        """Read up to the first event; returns what follows."""
        text = b""
        for block in blocks:
            text += block
            bare = text.lstrip(b"\xef\xbb\xbf \t\r\n")
            if bare.startswith(b"["):
                return bare[1:]
            if bare and not bare.startswith(b"{"):
                break
            if match := _FIRST.search(bare):
                self._facts(bare[: match.start()].rstrip().removesuffix(b",") + b"}")
                return bare[match.end() :]
            if len(text) > LONGEST_HEADER:
                break
        if text.startswith(UTF_16):
            raise UnreadableError("it is text in UTF-16: iconv -f utf-16 -t utf-8 makes it readable")
        raise UnreadableError(f"it holds no list of trace events: it begins {bytes(text[:40])!r}")

    def _end(self, rest: bytes) -> None:
        text = rest.strip().removeprefix(b",").strip()
        if text.startswith(b'"'):
            self._facts(b"{" + text.removesuffix(b"}") + b"}")
        elif text not in (b"", b"}"):
            self._skipped["text behind the end of the events"] += 1

    def _facts(self, text: bytes) -> None:
        try:
            found = json.loads(text.translate(_CONTROL).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            self._skipped["facts about the job that are no JSON"] += 1
            return
        if isinstance(found, dict):
            if isinstance(found.pop("traceEvents", None), list):
                self._skipped["a second list of trace events, of which nothing is read"] += 1
            self.header.update(found)

    def _decode(self, rest: bytes, block: bytes, *, last: bool) -> tuple[list[TraceEvent], bytes, bool]:
        """Return the events of what was left and a block, what is left now, and whether the list ended."""
        text = bytearray().join((b"[", rest, block))
        with memoryview(text) as view:
            for match, end in _places(text, last=last):
                close = match.start() + 1
                over, text[close] = text[close], ord("]")
                try:
                    events = self._decoded(view[: close + 1])
                except (ValueError, RecursionError):
                    text[close] = over
                    continue
                return events, bytes(view[match.end() :]), end
        return self._decode_leniently(bytes(text[1:]), last=last)

    def _decoded(self, text: memoryview) -> list[TraceEvent]:
        others = self._usual.scan(text) if self._usual is not None else None
        if self._usual is None or others is None:
            return _EVENTS.decode(text)
        try:
            events = _EVENTS.decode(others)
        except (ValueError, RecursionError):
            return _EVENTS.decode(text)
        self._usual.take()
        return events

    def _decode_leniently(self, text: bytes, *, last: bool) -> tuple[list[TraceEvent], bytes, bool]:
        try:
            letters = text.translate(_CONTROL).decode()
        except UnicodeDecodeError as error:
            if error.start < len(text) - 4:
                self._skipped["text that is not UTF-8, replaced"] += 1
            letters = text.translate(_CONTROL).decode("utf-8", "replace")
        events: list[TraceEvent] = []
        at = 0
        while True:
            if at > _BEHIND:  # each error counts the lines before it
                letters, at = letters[at:], 0
            blanks = _BLANKS.match(letters, at)
            at = blanks.end() if blanks else at
            if at >= len(letters):
                return events, b"", False
            if letters[at] == "]":
                return events, letters[at + 1 :].encode(), True
            try:
                found, stop = _LENIENT.raw_decode(letters, at)
                event = _event(found)
            except (ValueError, RecursionError, OverflowError):
                following = _NEXT.search(letters, at + 1)
                if following is None or (not last and following.start() > len(letters) - 4096):
                    return self._remainder(events, letters[at:], last=last)
                found, stop = _mended(letters[at : following.start()]), following.start()
                event = _event(found) if found is not None else None
            at = stop
            if event is None:
                self._skipped["an event that is no JSON object, or whose fields are of odd types"] += 1
            else:
                events.append(event)

    def _remainder(
        self, events: list[TraceEvent], letters: str, *, last: bool
    ) -> tuple[list[TraceEvent], bytes, bool]:
        """Return what an unfinished event begins with, to be read on with the next block."""
        if not last and len(letters) < LONGEST_EVENT:
            return events, letters.encode(), False
        self._skipped[
            "an event that does not end" if last else f"an event of over {LONGEST_EVENT} bytes"
        ] += 1
        return events, b"", False

    def _blocks(self) -> Iterator[bytes]:
        """Yield the file's text; what a damaged compressed file still gives, and no more than it may."""
        with self.path.open("rb") as file:
            magic = file.read(2)
            file.seek(0)
            if magic != b"\x1f\x8b":
                while block := file.read(BLOCK):
                    self.read += len(block)
                    yield block
                return
            yield from self._inflated(file)

    def _inflated(self, file: BinaryIO) -> Iterator[bytes]:
        given = 0
        inflate, begun = zlib.decompressobj(31), False
        waiting: list[bytes] = []
        size = 0
        while block := file.read(1 << 18):
            self.read += len(block)
            while block:
                try:
                    text = inflate.decompress(block, BLOCK)
                    begun = True
                except zlib.error as error:
                    self._skipped[f"compressed data from byte {self.read} on: {error}"] += 1
                    yield b"".join(waiting)
                    return
                block = inflate.unconsumed_tail
                if inflate.eof:
                    block = inflate.unused_data.lstrip(b"\0")
                    inflate, begun = zlib.decompressobj(31), False
                given += len(text)
                if given > LONGEST_HEADER and given > MOST_EXPANSION * self.read:
                    told = f"{given} bytes in its first {self.read}"
                    raise UnreadableError(f"it holds {told}: no trace is that repetitive")
                waiting.append(text)
                size += len(text)
                if size >= BLOCK:
                    yield b"".join(waiting)
                    waiting, size = [], 0
        if begun:
            self._skipped["the compressed file is cut off"] += 1
        yield b"".join(waiting)


def _event(found: Any) -> TraceEvent | None:
    """Build an event from the result of the lenient parser; None for anything else."""
    if not isinstance(found, dict):
        return None
    event = TraceEvent()
    try:
        for name, kinds in _FIELDS.items():
            value = found.get(name)
            if value is not None:
                setattr(event, name, value if isinstance(value, kinds) else str(value))
        if isinstance(found.get("args"), dict):
            event.args = Raw(msgspec.json.encode(found["args"]))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return event


def _mended(text: str) -> Any:
    """Read an event with commas before closing brackets, which is what writers get wrong most often."""
    try:
        return _LENIENT.raw_decode(_TRAILING.sub(r"\1", text))[0]
    except (ValueError, RecursionError):
        return None


def _places(text: bytearray, *, last: bool) -> Iterator[tuple[re.Match[bytes], bool]]:
    """Yield where a block may be cut between two events, and where the list may end: a few of each."""
    if not last:
        for match in [*_BOUNDARY.finditer(text, max(0, len(text) - 65536))][:-4:-1]:
            yield match, False
    for match in islice(_LAST.finditer(text), 3):
        yield match, True
