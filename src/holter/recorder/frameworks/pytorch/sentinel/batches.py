"""Fingerprints of consecutive batches of data loaders: the first 4 kB of each CPU tensor."""

from __future__ import annotations

import ctypes
import itertools
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.patches import Patches

BYTES = 4096
BATCHES = 16
"""Batches that follow a step that is due and are printed."""
_TENSORS = 8


class BatchPrints:
    """Prints the batches that follow steps that are due."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("sentinel_batches")
        self._left = BATCHES
        self._found: list[list[int]] = []

    def attach(self, patches: Patches) -> None:
        """Begin with the first batch."""
        self.adapter.on_batch = self._on_batch
        patches.later(self._stop)

    def _stop(self) -> None:
        self.adapter.on_batch = None

    def begin(self) -> None:
        """Print the next batches."""
        self._left = BATCHES
        if self.breaker.on:
            self.adapter.on_batch = self._on_batch

    def take(self) -> list[list[int]]:
        """Return loader, step and fingerprint of each new batch; the first one of an epoch has a 1 more."""
        found, self._found = self._found, []
        return found

    def _on_batch(self, iterator: Any, batch: Any) -> None:
        self._left -= 1
        if self._left <= 0 or not self.breaker.on:
            self._stop()
        try:
            loader = int(getattr(iterator, "_holter_loader", -1))
            tensors = list(itertools.islice(_tensors(batch, self.adapter.torch), _TENSORS))
            if tensors and self.adapter.states.current.optimizers == 0:
                first = getattr(iterator, "_num_yielded", 0) == 1
                self._found.append([loader, self.adapter.session.step, _print(tensors), *[1] * first])
                del self._found[: -4 * BATCHES]
        except Exception as error:
            self.breaker.fault(error)


def _tensors(batch: Any, torch: Any, depth: int = 0) -> Iterator[Any]:
    if type(batch) is torch.Tensor:
        dense = batch.is_cpu and batch.layout is torch.strided and batch.is_contiguous()
        if dense and batch.numel() and batch.data_ptr():
            yield batch
    elif depth < 3:
        values = batch.values() if isinstance(batch, dict) else batch
        for one in values if isinstance(batch, (dict, list, tuple)) else ():
            yield from _tensors(one, torch, depth + 1)


def _print(tensors: list[Any]) -> int:
    value = 0
    for one in tensors:
        size = min(BYTES, one.numel() * one.element_size())
        value = zlib.crc32(ctypes.string_at(one.data_ptr(), size), value)
    return value
