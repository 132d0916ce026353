"""Measures how far parameters moved since their last row, by a bounded set of copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.statistics import SLAB
from holter.recorder.guard import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.recorder.frameworks.pytorch.tensors.statistics import Statistics

_NAN = float("nan")
NO_DELTAS = (_NAN, _NAN, _NAN)
MAX_COPIES = 1 << 30
"""Bytes of parameters kept from one row to the next, to measure the change; beyond it changes are missing."""

RARE = 10
"""Steps from one row of a tensor that holds its quantiles and its hash to the next, at least."""


class FullRows:
    """Says which rows of parameters and gradients hold what not each row holds.

    The first row in each ten steps does, whatever the schedule: those of all ranks are of the same steps.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._prints: dict[str, int] = {}

    def holds(self, name: str, step: int) -> bool:
        """Whether the row of a tensor at a step is such a row."""
        last, self._last[name] = self._last.get(name), step // RARE
        return last != step // RARE

    def print(self, name: str, fingerprint: int, deltas: Sequence[float]) -> int:
        """Return the hash of a tensor, which is the last one where nothing has changed; 0 if not known."""
        if not fingerprint and deltas[2] == 0:
            fingerprint = self._prints.get(name, 0)
        self._prints[name] = fingerprint
        return fingerprint


class Changes:
    """Keeps a copy of each parameter that is asked for, and tells how far it is from it."""

    def __init__(self, torch: Any, statistics: Statistics) -> None:
        self._torch = torch
        self._statistics = statistics
        self._copies: dict[str, Any] = {}
        self._copied = 0
        self._refused = False

    def forget(self) -> None:
        """Give up all copies."""
        self._copies.clear()
        self._copied = 0

    def before(self, tensor: Any, name: str) -> Any:
        """Return the copy of a tensor at its last row; without one, keep a copy and return None."""
        before = self._copies.get(name)
        if before is not None and before.shape == tensor.shape and before.device == tensor.device:
            return before
        size = tensor.numel() * tensor.element_size()
        if before is not None:
            self._copied -= before.numel() * before.element_size()
            del self._copies[name]
        if self._copied + size > MAX_COPIES or not self._room(tensor, size):
            if not self._refused:
                self._refused = True
                tell("changes of parameters are told for the first 1 GiB of them only: each needs a copy")
            return None
        self._copies[name] = tensor.clone()
        self._copied += size
        return None

    def of(self, tensor: Any, name: str) -> Any:
        """Return l2, mean and largest absolute change since the last time; keep a copy for the next."""
        torch = self._torch
        before = self.before(tensor, name) if tensor.numel() <= SLAB else None
        if before is None:
            return NO_DELTAS
        if tensor.device.type == "cpu":
            return self._statistics.change(tensor, before)
        difference = self._statistics.flat(tensor).sub(self._statistics.flat(before))
        before.copy_(tensor)
        if difference.numel() == 0:
            return NO_DELTAS
        norm = torch.linalg.vector_norm(difference, dtype=torch.float64)
        difference.abs_()
        return norm, difference.mean(), difference.max()

    def _room(self, tensor: Any, size: int) -> bool:
        """Whether a device has room to spare: never more than a tenth of what is free."""
        if tensor.device.type != "cuda":
            return True
        return bool(size < self._torch.cuda.mem_get_info(tensor.device)[0] / 10)
