"""Decode blocks of trace events: at once into what tables need, where all of a block is of usual shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

import msgspec

from holter.importers.kineto.events import TraceEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.importers.kineto.usual_events import UsualEvents

MOST_SHAPES = 64
"""Categories of one file that have a type of their own; with more, none has."""
MOST_MISSES = 8
"""After so many blocks in a row that are not of the usual shape, none is tried any more."""


_DECODER = msgspec.json.Decoder(list[TraceEvent])


class BlockDecoder:
    """Decodes the blocks of one file. Given the type of each category, it learns which categories there are.

    One type for each category costs no more than one for all, and saves a second pass over what events
    carry. A block in which anything is odd is decoded as `TraceEvent`, and its readers bear with what is odd.
    """

    def __init__(
        self, shape: Callable[[str], type[msgspec.Struct]] | None = None, usual: UsualEvents | None = None
    ) -> None:
        self._usual = usual
        self._shape = shape
        self._shapes: dict[str, type[msgspec.Struct]] = {}
        self._typed: Any = None
        self._misses = 0

    def decode(self, text: memoryview) -> list[TraceEvent]:
        """Return the events of a list of them, but for those that are usual and taken in already.

        Raises:
            ValueError, RecursionError: It is no valid JSON, or no list of events.
        """
        if self._usual is not None and (others := self._usual.scan(text)) is not None:
            try:
                events = self._decoded(others)
            except (ValueError, RecursionError):
                pass
            else:
                self._usual.take()
                return events
        return self._decoded(text)

    def _decoded(self, text: memoryview | bytes) -> list[TraceEvent]:
        if self._typed is not None:
            try:
                events: list[TraceEvent] = self._typed.decode(text)
            except msgspec.ValidationError:
                self._misses += 1
            else:
                self._misses = 0
                return events
        events = _DECODER.decode(text)
        self._learn({event.cat for event in events})
        return events

    def _learn(self, categories: set[str | None]) -> None:
        new = [cat for cat in categories if cat is not None and cat not in self._shapes]
        if self._shape is None or self._misses > MOST_MISSES or len(self._shapes) + len(new) > MOST_SHAPES:
            self._typed = None
        elif new:
            self._shapes.update((cat, self._shape(cat)) for cat in new)
            any_of: Any = Union.__getitem__(tuple(self._shapes.values()))
            self._typed = msgspec.json.Decoder(list[any_of])
