"""Compares sampled elements of parameters where no optimizer changes them: a device may have flipped a bit.

Elements are read when a step that is due begins, and again before the optimizer steps. If exactly one has
changed, by one bit or by orders of magnitude, the device may have changed it. Edits of the script, such as
moving averages, clamped or tied weights, change more elements, or one by little. Between two steps that are
due the optimizer moves all elements, so only a jump of one element stands out.
"""

from __future__ import annotations

import ctypes
import math
import struct
from array import array
from itertools import islice
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.sentinel import samples

if TYPE_CHECKING:
    from collections.abc import Sequence

JUMP = 1e3
"""An element that exceeds all sampled ones of its parameter by this factor has jumped."""
FAR, FAR_JUMP = 1e4, 1e6
"""Least magnitude and factor of a jump between steps, larger because an optimizer also changes elements."""
LEAST = 8
"""Sampled elements of a parameter that is judged: a script may clamp or set a single number."""
WINDOW = 32
"""Parameters of one optimizer that are read as a step begins; each time the next ones."""
_OPTIMIZERS = 20
_FORMATS = {"float16": "e", "bfloat16": "f", "float32": "f", "float64": "d"}


class Flips:
    """Keeps the sampled elements of optimizers from one look to the next."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._owners: dict[int, list[Any]] = {}
        """Weak references to the sampled parameters, by id of the optimizer."""
        self._begun: dict[int, tuple[Any, list[int], int]] = {}
        """The elements at the begin of the step, how many each parameter has, and the first parameter."""
        self._looks = 0
        self._last: dict[int, tuple[int, bytes, list[int]]] = {}
        """Step, elements on the host, and numbers of elements, of the last look."""

    def begin(self) -> None:
        """Read the parameters of all known optimizers, as a step begins."""
        self._begun = {}
        self._looks += 1
        for key, references in self._owners.items():
            first = self._looks * WINDOW % (-(-len(references) // WINDOW) * WINDOW)
            parameters = [one() for one in references[first : first + WINDOW]]
            found = samples.gathered(self._torch, [one for one in parameters if one is not None])
            if found is not None and len(found[1]) == len(parameters):
                self._begun[key] = *found, first

    def end(self) -> None:
        """Forget the elements of this step."""
        self._begun = {}

    def vector(self, key: int, chosen: samples.Chosen) -> tuple[Any, int, int]:
        """Return the elements of an optimizer before its step, after the elements of the begin.

        The first number is the largest magnitude. The second value counts the numbers before `chosen`, the
        third one is the number of the first parameter of the begin.
        """
        if len(self._owners) > _OPTIMIZERS:
            self._owners.clear()
            self._last.clear()
        self._owners[key] = samples.weakly(one for _, one in chosen.owners)
        sizes = chosen.sizes[: len(chosen.owners)]
        most = chosen.vector[: sum(sizes)].abs().amax().reshape(1)
        begun, before, first = self._begun.pop(key, (None, [], 0))
        parts = [most, chosen.vector]
        if begun is not None and before == sizes[first : first + WINDOW] and begun.device == most.device:
            parts.insert(1, begun)
        return self._torch.cat(parts), sum(one.numel() for one in parts[:-1]), first

    def compared(
        self,
        key: int,
        step: int,
        host: Any,
        skipped: int,
        first: int,
        sizes: Sequence[int],
        types: Sequence[Any],
    ) -> dict[str, Any] | None:
        """Return a fact about one element that has changed by itself; its `parameter` is a position.

        Args:
            key: Id of the optimizer.
            step: The step before whose update the elements were read.
            host: What `vector` returned, on the host.
            skipped: The second value that `vector` returned.
            first: The third one.
            sizes: Sampled elements of each parameter.
            types: Types of the parameters.
        """
        count = sum(sizes)
        raw = ctypes.string_at(host.data_ptr(), 8 * (skipped + count))
        then, now = raw[8 : 8 * skipped], raw[8 * skipped :]
        last, self._last[key] = self._last.get(key), (step, now, list(sizes))
        begin = 8 * sum(sizes[:first])
        after = now[begin : begin + len(then)]
        if then != after:
            found = _changed(_doubles(then), _doubles(after), sizes[first:], types[first:])
            if found is None:
                return None
            return found | {"parameter": found["parameter"] + first, "since": step, "step": step}
        if last is None or last[2] != list(sizes) or not _doubles(raw[:8])[0] > FAR:
            return None
        found = _jumped(_doubles(last[1]), _doubles(now), sizes)
        return None if found is None else found | {"since": last[0], "step": step}


def _doubles(raw: bytes) -> array[float]:
    found = array("d")
    found.frombytes(raw)
    return found


def _changed(
    then: array[float], now: array[float], sizes: Sequence[int], types: Sequence[Any]
) -> dict[str, Any] | None:
    pairs = enumerate(zip(then, now, strict=True))
    changed = list(islice((i for i, (a, b) in pairs if a != b and (a == a or b == b)), 2))
    if len(changed) != 1:
        return None
    at, begin, number = _place(changed[0], sizes)
    before, after = then[changed[0]], now[changed[0]]
    if sizes[number] < LEAST:
        return None
    most = max(map(abs, then[begin : begin + sizes[number]]))
    flipped = _bits(before, after, types[number])
    if flipped != 1 and not (most > 0 and abs(after) > JUMP * most) and math.isfinite(after):
        return None
    return _fact(number, at, before, after, flipped)


def _jumped(then: array[float], now: array[float], sizes: Sequence[int]) -> dict[str, Any] | None:
    found: list[tuple[int, int]] = []
    begin = 0
    for number, size in enumerate(sizes):
        most = max(map(abs, then[begin : begin + size]), default=0)
        if most > 0 and size >= LEAST:
            limit = max(FAR, FAR_JUMP * most)
            found += [(number, at) for at in range(size) if abs(now[begin + at]) > limit]
        begin += size
    if len(found) != 1:
        return None
    ((number, at),) = found
    i = sum(sizes[:number]) + at
    return _fact(number, at, then[i], now[i], None)


def _place(i: int, sizes: Sequence[int]) -> tuple[int, int, int]:
    """Return the position in its parameter, the begin of the parameter, and its number."""
    begin = 0
    for number, size in enumerate(sizes):
        if i < begin + size:
            return i - begin, begin, number
        begin += size
    raise IndexError(i)


def _fact(number: int, at: int, before: float, after: float, flipped: int | None) -> dict[str, Any]:
    return {
        "parameter": number,
        "element": at,
        "before": before,
        "after": after if math.isfinite(after) else str(after),
        "bits": flipped,
    }


def _bits(before: float, after: float, dtype: Any) -> int | None:
    """Return in how many bits two numbers of a type differ; None for types without a known format."""
    kind = _FORMATS.get(str(dtype).rpartition(".")[2])
    if kind is None:
        return None
    a, b = (int.from_bytes(struct.pack(f"<{kind}", one), "little") for one in (before, after))
    return (a ^ b).bit_count()
