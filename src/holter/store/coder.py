"""Write symbols in as many bits as they surprise: counts of what came before, in rANS.

How often each symbol came is counted in several contexts, from none to a narrow one. Where a context has
seen little the one before it decides: it weighs as much as there are distinct symbols (Witten and Bell). All
is whole numbers, so every machine reads what another wrote. One walk through the symbols serves both ways:
whoever writes gives each symbol, whoever reads is told it.
rANS: https://arxiv.org/abs/1311.2540
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

_BITS = 24
"""All symbols of one place share 2^24."""
_LEAST, _STATE_BYTES = 1 << 32, 5
"""Between symbols the state is at least this, and below 2^8 times that."""
_RAW = 16
"""Bits of a number that are written at once."""
_LENGTHS = 80
"""Lengths in bits that a number may have, and 0: differences of numbers of 64 bits, and more."""


class Model:
    """What came so far in each context, of a given number of symbols."""

    def __init__(self, symbols: int) -> None:
        self.symbols = symbols
        self._first = np.arange(symbols + 1, dtype=np.int64)
        self._even = (self._first << _BITS) // symbols
        self._below: dict[tuple[int, Hashable], NDArray[np.int64]] = {}
        """How many came below each symbol, and last of all, times 2^24 …"""
        self._distinct: dict[tuple[int, Hashable], int] = {}
        """… and how many different ones."""

    def bounds(self, contexts: Sequence[Hashable]) -> NDArray[np.int64]:
        """Return where the share of each symbol begins, and at last the end, 2^24."""
        bounds = self._even
        for place in enumerate(contexts):
            below = self._below.get(place)
            if below is not None:
                distinct = self._distinct[place]
                bounds = (below + distinct * bounds) // ((below.item(-1) >> _BITS) + distinct)
        # Each has a share of one at least, or it could not be written.
        return (bounds * ((1 << _BITS) - self.symbols) >> _BITS) + self._first

    def share(self, contexts: Sequence[Hashable], symbol: int) -> tuple[int, int]:
        """Return the two of the bounds that are a symbol's: the same, but quicker."""
        begin, end = (symbol << _BITS) // self.symbols, (symbol + 1 << _BITS) // self.symbols
        for place in enumerate(contexts):
            below = self._below.get(place)
            if below is not None:
                distinct = self._distinct[place]
                all_ = (below.item(-1) >> _BITS) + distinct
                begin = (below.item(symbol) + distinct * begin) // all_
                end = (below.item(symbol + 1) + distinct * end) // all_
        left = (1 << _BITS) - self.symbols
        return (begin * left >> _BITS) + symbol, (end * left >> _BITS) + symbol + 1

    def count(self, contexts: Sequence[Hashable], symbol: int) -> None:
        """Learn that a symbol came."""
        for place in enumerate(contexts):
            below = self._below.get(place)
            if below is None:
                below = self._below[place] = np.zeros(self.symbols + 1, np.int64)
                self._distinct[place] = 1
            elif below.item(symbol) == below.item(symbol + 1):
                self._distinct[place] += 1
            below[symbol + 1 :] += 1 << _BITS


class Coder:
    """Writes symbols, or reads what was written.

    Args:
        data: What to read; None to write.
    """

    def __init__(self, data: bytes | None = None) -> None:
        self.reads = data is not None
        self._spans: list[tuple[int, int, int]] = []
        self._data = data or b""
        self._state = int.from_bytes(self._data[:_STATE_BYTES], "big")
        self._at = _STATE_BYTES
        self._lengths = Model(_LENGTHS)

    def symbol(self, model: Model, contexts: Sequence[Hashable], given: int = 0) -> int:
        """Write a symbol, or read one; returns it. Contexts go from the widest to the narrowest."""
        if self.reads:
            bounds = model.bounds(contexts)
            given = int(bounds.searchsorted(self._state & (1 << _BITS) - 1, "right")) - 1
            begin, end = bounds.item(given), bounds.item(given + 1)
        else:
            begin, end = model.share(contexts, given)
        self._span(begin, end - begin, _BITS)
        model.count(contexts, given)
        return given

    def number(self, contexts: Sequence[Hashable], given: int = 0) -> int:
        """Write a number from 0 on, or read one: how many bits it has as a symbol, then these as they are.

        Raises:
            ValueError: It is too long, or what was written is over.
        """
        length = given.bit_length()
        if length >= _LENGTHS:
            raise ValueError(f"a number of {length} bits")
        length = self.symbol(self._lengths, contexts, length)
        number, left = int(length > 0), max(0, length - 1)
        while left:
            bits = min(left, _RAW)
            left -= bits
            part = (self._state if self.reads else given >> left) & (1 << bits) - 1
            self._span(part, 1, bits)
            number = number << bits | part
        return number

    def signed(self, contexts: Sequence[Hashable], given: int = 0) -> int:
        """Write a number of either sign, or read one."""
        number = self.number(contexts, 2 * given if given >= 0 else -2 * given - 1)
        return -(number + 1 >> 1) if number & 1 else number >> 1

    def _span(self, begin: int, size: int, bits: int) -> None:
        if not self.reads:
            self._spans.append((begin, size, bits))
            return
        state = size * (self._state >> bits) + (self._state & (1 << bits) - 1) - begin
        while state < _LEAST:
            if self._at >= len(self._data):
                raise ValueError("what was coded ends too early")
            state = state << 8 | self._data[self._at]
            self._at += 1
        self._state = state

    def written(self) -> bytes:
        """Return all that was written: the last symbol first, for they are read the other way round."""
        state, out = _LEAST, bytearray()
        for begin, size, bits in reversed(self._spans):
            while state >= (_LEAST >> bits << 8) * size:
                out.append(state & 0xFF)
                state >>= 8
            state = (state // size << bits) + state % size + begin
        return state.to_bytes(_STATE_BYTES, "big") + bytes(reversed(out))
