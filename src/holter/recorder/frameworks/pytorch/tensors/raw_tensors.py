"""Saves whole tensors: copies them during a step, writes one file at its end."""

from __future__ import annotations

import ctypes
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.tensors.safetensors import DTYPES

if TYPE_CHECKING:
    from holter.recorder.tensors.safetensors import Entry
    from holter.recorder.tensors.writing import TensorFiles

MAX_RAW_STEP = 2 << 30
"""Bytes of whole tensors of one step at most."""


class RawTensors:
    """Keeps copies of whole tensors, by step and mode, until they are written."""

    def __init__(self, files: TensorFiles) -> None:
        self._files = files
        self._raw: dict[tuple[int, int], tuple[list[Entry], int]] = {}

    def forget(self) -> None:
        """Forget the copies."""
        self._raw.clear()

    def write(self) -> None:
        """Write the copies."""
        raw, self._raw = self._raw, {}
        for (step, mode), (entries, _) in raw.items():
            self._files.save(perf_counter_ns(), step, mode, entries)

    def keep(self, host: Any, name: str, step: int, mode: int) -> None:
        """Copy a tensor of the host."""
        dtype = str(host.dtype).rpartition(".")[2]
        if dtype not in DTYPES:
            notice = f"tensors of type {dtype} cannot be saved whole; their statistics are"
            self._files.tell_once(notice, notice)
            return
        size = host.numel() * host.element_size()
        entries, before = self._raw.get((step, mode), ([], 0))
        if before + size > MAX_RAW_STEP:  # checked before the copy: the tensor may be larger than the memory
            self._files.drop("raw bytes", size)
            self._files.drop("saves", 1)
            limit = f"whole tensors of one step take {MAX_RAW_STEP >> 30} GiB at most"
            self._files.tell_once("raw size", f"{name!r} is not saved whole: {limit}")
            return
        host = host.contiguous()
        data = ctypes.string_at(host.data_ptr(), size) if size else b""
        entries.append((name, dtype, tuple(host.shape), data))
        self._raw[step, mode] = (entries, before + size)
