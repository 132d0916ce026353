"""Measures how far parameters moved since their last row, with a bounded number of copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.statistics import SLAB
from holter.recorder.guard import tell
from holter.recorder.tensors.writing import NO_DELTAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.recorder.frameworks.pytorch.tensors.statistics import Statistics

MAX_COPIES = 1 << 30
"""Bytes of parameters copied from one row to the next; changes of further parameters are missing."""
RARE = 10
"""Steps between two rows of a tensor with quantiles and hash, at least."""


class FullRows:
    """Decides which rows of parameters and gradients contain quantiles and a hash.

    The first row in each ten steps does, whatever the schedule, so that all ranks have full rows of the same
    steps.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._prints: dict[str, int] = {}

    def holds(self, name: str, step: int) -> bool:
        """Whether the row of a tensor at a step is full."""
        last, self._last[name] = self._last.get(name), step // RARE
        return last != step // RARE

    def print(self, name: str, fingerprint: int, deltas: Sequence[float]) -> int:
        """Return the hash of a tensor; without a change this is its last hash; 0 if unknown."""
        if not fingerprint and deltas[2] == 0:
            fingerprint = self._prints.get(name, 0)
        self._prints[name] = fingerprint
        return fingerprint


class Changes:
    """Keeps a copy of each saved parameter, and measures its distance from that copy."""

    def __init__(self, torch: Any, statistics: Statistics) -> None:
        self._torch = torch
        self._statistics = statistics
        self._copies: dict[str, Any] = {}
        self._copied = 0
        self._refused = False

    def forget(self) -> None:
        """Forget all copies."""
        self._copies.clear()
        self._copied = 0

    def before(self, tensor: Any, name: str) -> Any:
        """Return the copy from the last row; without one, copy the tensor and return None."""
        before = self._copies.get(name)
        if before is not None and before.shape == tensor.shape and before.device == tensor.device:
            return before
        size = tensor.numel() * tensor.element_size()
        if before is not None:
            self._copied -= before.numel() * before.element_size()
            del self._copies[name]
        if self._copied + size > MAX_COPIES or not self._fits(tensor, size):
            if not self._refused:
                self._refused = True
                tell("changes are saved for the first 1 GiB of parameters only: each needs a copy")
            return None
        self._copies[name] = tensor.clone()
        self._copied += size
        return None

    def of(self, tensor: Any, name: str) -> Any:
        """Return l2 norm, mean and largest absolute change since the last row; update the copy."""
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

    def _fits(self, tensor: Any, size: int) -> bool:
        """Whether a copy takes less than a tenth of the free memory of a device."""
        if tensor.device.type != "cuda":
            return True
        return bool(size < self._torch.cuda.mem_get_info(tensor.device)[0] / 10)
