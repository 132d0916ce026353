"""Samples the stack of the training thread every millisecond with pyinstrument."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holter.recorder.profilers import ProfilerUnavailable
from holter.recorder.profilers._cprofile import RECORDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.recorder.profilers._cprofile import ProfileSegment

INTERVAL_S = 0.001
_FIELD, _ATTRIBUTE = "\x00", "\x01"
"""Separators of pyinstrument: of name, file and line of a frame, and of its attributes."""


class StackSamples:
    """One pyinstrument session for the whole window; cuts are times in it."""

    def __init__(self) -> None:
        try:
            from pyinstrument import Profiler
        except ImportError:
            raise ProfilerUnavailable(
                "pyinstrument is not in the training's environment; install it there, or take cprofile"
            ) from None
        try:
            self._profiler: Any = Profiler(interval=INTERVAL_S, async_mode="disabled")
        except TypeError as error:  # before version 4
            raise ProfilerUnavailable(f"this pyinstrument is too old: {error}") from None
        self._segments: list[ProfileSegment] = []
        self._session: Any = None
        self._began = 0

    def start(self) -> None:
        """Begin to sample the calling thread."""
        try:
            self._profiler.start()
        except RuntimeError as error:  # the script runs pyinstrument itself
            raise ProfilerUnavailable(f"pyinstrument: {error}") from None
        self._began = time.perf_counter_ns()

    def full(self) -> bool:
        """Return False: there is one document, at the end."""
        return False

    def cut(self, segment: ProfileSegment | None) -> None:
        """Note that a segment begins."""
        if segment is not None:
            self._segments.append(segment)

    def stop(self) -> None:
        """End."""
        if self._profiler.is_running:
            self._session = self._profiler.stop()

    def documents(self, name: Callable[[Any], int]) -> Iterator[dict[str, object]]:
        """Yield one document: the segments, each stack once, and stack and length of each sample."""
        if self._session is None:
            return
        known: dict[tuple[str, ...], int] = {}
        stacks: list[list[int]] = []
        samples: list[int] = []
        for frames, seconds in self._session.frame_records:
            key = tuple(frames)
            number = known.get(key)
            if number is None:
                number = known[key] = len(stacks)
                texts = [text for text in map(_text, key) if text]
                stacks.append([name(text) for text in texts])
            samples += (number, round(seconds * 1e9))
        yield {
            "segments": [asdict(segment) for segment in self._segments],
            "began": self._began,
            "stacks": stacks,
            "samples": samples,
        }


def _text(frame: str) -> str:
    """Return `qualname (file:line)` of a frame; empty for a thread or the recorder."""
    identity, *attributes = frame.split(_ATTRIBUTE)
    name, _, place = identity.partition(_FIELD)
    file, _, line = place.partition(_FIELD)
    if file.startswith(RECORDER) or file == "<thread>":
        return ""
    if file == "<built-in>":
        return f"<built-in {name}>"
    owner = next((text[1:] for text in attributes if text[:1] == "c"), "")
    qualname = f"{owner}.{name}" if owner else name
    return f"{qualname} ({file}:{line})" if file and line.isdigit() else qualname
