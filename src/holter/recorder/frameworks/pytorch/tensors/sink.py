"""Turn one tensor into what its collections keep of it: a row of statistics, values, histograms, bytes."""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.fingerprints import Fingerprints
from holter.recorder.frameworks.pytorch.tensors.names import local
from holter.recorder.frameworks.pytorch.tensors.on_device import on_device
from holter.recorder.frameworks.pytorch.tensors.statistics import EMPTY, SLAB, Statistics, Summary
from holter.recorder.frameworks.pytorch.tensors.values import described
from holter.recorder.guard import tell
from holter.recorder.tensors.safetensors import DTYPES
from holter.schema.tensor_spool import STATES, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.frameworks.pytorch.flow import Flow
    from holter.recorder.frameworks.pytorch.tensors.arrivals import Arrivals
    from holter.recorder.tensors.collections import Collection, Tensor
    from holter.recorder.tensors.safetensors import Entry
    from holter.recorder.tensors.writing import TensorFiles

_NAN = float("nan")
_NO_DELTAS = (_NAN, _NAN, _NAN)
MAX_COPIES = 1 << 30
"""Bytes of parameters kept from one row to the next, to tell the change; beyond it changes are not told."""
MAX_RAW_STEP = 2 << 30
"""Bytes of whole tensors kept for one step at most."""
MAX_VALUES = 1 << 16
SMALL = 1 << 14
_TOLD_WHOLE = {"loss", "labels", "predictions", "token_ids"}
"""Roles of tensors that are stored element by element, if they have no more than `SMALL` of them, as those
that scripts save themselves."""


class Sink:
    """Takes tensors of the step that is being saved."""

    def __init__(self, flow: Flow, files: TensorFiles, arrivals: Arrivals) -> None:
        self.files = files
        self.statistics = Statistics(flow.torch)
        self._fingerprints = Fingerprints(flow.torch)
        self.healthy: dict[str, dict[str, Any]] = {}
        """Of each tensor the statistics of its last row without a non-finite element."""
        self._torch = flow.torch
        self._arrivals = arrivals
        self._copies: dict[str, Any] = {}
        self._copied = 0
        self._refused = False
        self._raw: dict[tuple[int, int], tuple[list[Entry], int]] = {}
        self._unsaid: set[str] = set()
        self._lock = threading.Lock()

    def take(
        self,
        tensor: Any,
        what: Tensor,
        due: Sequence[Collection],
        step: int,
        mode: int,
        *,
        state: str = "",
        scale: Any = None,
    ) -> None:
        """Keep of a tensor what its collections ask for; `scale`: what its values are multiplied by."""
        of = [one for one in due if one.holds(what)]
        if of:
            with self._lock:  # scripts save tensors of their own from any thread
                self._take(tensor, what, of, step, mode, state, scale)

    def _take(
        self,
        tensor: Any,
        what: Tensor,
        of: Sequence[Collection],
        step: int,
        mode: int,
        state: str,
        scale: Any,
    ) -> None:
        tensor = local(tensor.detach())
        if tensor.device.type not in ("cpu", "cuda"):
            return
        when = perf_counter_ns()
        number = self.files.id(what)
        wanted = {name for one in of for name in one.statistics}
        kept = {name for one in of for name in one.kept}
        absent = 0
        if tensor.layout is not self._torch.strided:
            tensor, absent = _stored(tensor)
        if scale is not None:
            tensor = tensor / scale.to(tensor.device)
        if wanted:
            self._row(tensor, what, wanted, (when, step, mode, number), absent, STATES.index(state))
        if (what.role in _TOLD_WHOLE or what.kind == "custom") and tensor.numel() <= SMALL:
            kept.add("values")
        if "raw" in kept:
            self._later(tensor, lambda host: self._keep_raw(host, what.name, step, mode))
        for kind, values in described(self._torch, tensor, what.role, kept, self.statistics, MAX_VALUES):
            write = self._writer(when, step, mode, number, kind)
            self._later(values, write)

    def absent(self, what: Tensor, due: Sequence[Collection], step: int, mode: int, state: str) -> None:
        """Keep a row that says that there is no such tensor at this step."""
        if any(one.holds(what) for one in due):
            number = self.files.id(what)
            self.files.row(perf_counter_ns(), step, mode, number, (0,) * 6, EMPTY, state=STATES.index(state))

    def finish(self) -> None:
        """The step is over: send what is on a device, write what is here."""
        self._arrivals.send()
        self.flush()

    def forked(self) -> None:
        """Give up what waits: it is the parent's."""
        self._lock = threading.Lock()
        self._raw.clear()
        self._copies.clear()
        self._copied = 0

    def flush(self) -> None:
        """Write what waits; called once more when results have arrived from a device."""
        raw, self._raw = self._raw, {}
        for (step, mode), (entries, _) in raw.items():
            self.files.save(perf_counter_ns(), step, mode, entries)
        self.files.flush()

    def _row(
        self,
        tensor: Any,
        what: Tensor,
        wanted: set[str],
        at: tuple[int, int, int, int],
        absent: int,
        state: int,
    ) -> None:
        deltas: Any = _NO_DELTAS
        fingerprint: Any = 0
        if what.kind == "parameter" and "delta" in wanted:
            deltas = self._change(tensor, what.name)
        # Batches have one too: two that are the same are told by it.
        if "fingerprint" in wanted and (what.kind == "parameter" or (what.root and what.kind == "input")):
            fingerprint = self._fingerprints.of(tensor)
        quantiles = "quantiles" in wanted
        if tensor.device.type == "cuda":
            self._row_later(tensor, what, at, deltas, fingerprint, absent, state, quantiles)
            return
        found = self.statistics.of(tensor, quantiles=quantiles)
        found = _with_zeros(found, absent)
        deltas = tuple(float(one) for one in deltas)
        self._note(what, at[1], found)
        self.files.row(*at, found.counts, found.statistics, deltas, int(fingerprint), state)

    def _row_later(
        self,
        tensor: Any,
        what: Tensor,
        at: tuple[int, int, int, int],
        deltas: Any,
        fingerprint: Any,
        absent: int,
        state: int,
        quantiles: bool,
    ) -> None:
        """Do the same on a device: all numbers become one vector, the hash as two halves."""
        torch = self._torch
        count = tensor.numel()
        vector = on_device(torch, tensor, quantiles=quantiles)
        hashed = isinstance(fingerprint, torch.Tensor)
        halves = (
            torch.stack([fingerprint >> 32, fingerprint & 0xFFFF_FFFF]).double()
            if hashed
            else vector.new_zeros(2)
        )
        changes = (
            torch.stack([one.double() for one in deltas])
            if deltas is not _NO_DELTAS
            else vector.new_full((3,), _NAN)
        )

        def arrived(host: Any) -> None:
            numbers = host.tolist()
            counts = (count, *(int(one) for one in numbers[:5]))
            found = _with_zeros(Summary(counts, tuple(numbers[5:13])), absent)
            self._note(what, at[1], found)
            hash_ = (int(numbers[16]) << 32) + int(numbers[17])
            self.files.row(*at, found.counts, found.statistics, numbers[13:16], hash_, state)

        self._arrivals.later(torch.cat([vector, changes, halves]), arrived)

    def _note(self, what: Tensor, step: int, found: Summary) -> None:
        if not any(found.counts[1:4]):
            low, high, mean, std = found.statistics[:4]
            self.healthy[what.name] = {"step": step, "min": low, "max": high, "mean": mean, "std": std}

    def _change(self, tensor: Any, name: str) -> Any:
        """Return l2, mean and largest absolute change since the last time; keep a copy for the next."""
        torch = self._torch
        if tensor.numel() > SLAB:
            return _NO_DELTAS
        before = self._copies.get(name)
        if before is None or before.shape != tensor.shape or before.device != tensor.device:
            size = tensor.numel() * tensor.element_size()
            if before is not None:
                self._copied -= before.numel() * before.element_size()
                del self._copies[name]
            if self._copied + size > MAX_COPIES or not self._room(tensor, size):
                if not self._refused:
                    self._refused = True
                    tell("changes of parameters are told for the first 1 GiB of them only: each needs a copy")
                return _NO_DELTAS
            self._copies[name] = tensor.clone()
            self._copied += size
            return _NO_DELTAS
        if tensor.device.type == "cpu":
            return self.statistics.change(tensor, before)
        difference = self.statistics.flat(tensor).sub(self.statistics.flat(before))
        before.copy_(tensor)
        if difference.numel() == 0:
            return _NO_DELTAS
        norm = torch.linalg.vector_norm(difference, dtype=torch.float64)
        difference.abs_()
        return norm, difference.mean(), difference.max()

    def _room(self, tensor: Any, size: int) -> bool:
        """Whether a device has room to spare: never more than a tenth of what is free."""
        if tensor.device.type != "cuda":
            return True
        return bool(size < self._torch.cuda.mem_get_info(tensor.device)[0] / 10)

    def _later(self, values: Any, call: Callable[[Any], None]) -> None:
        if values.device.type == "cuda":
            self._arrivals.later(values, call)
        else:
            call(values)

    def _writer(self, when: int, step: int, mode: int, number: int, kind: Values) -> Callable[[Any], None]:
        def write(host: Any) -> None:
            numbers = host.double().reshape(-1).tolist()
            self.files.values(when, step, mode, number, kind, struct.pack(f"<{len(numbers)}d", *numbers))

        return write

    def _keep_raw(self, host: Any, name: str, step: int, mode: int) -> None:
        dtype = str(host.dtype).rpartition(".")[2]
        if dtype not in DTYPES:
            if dtype not in self._unsaid:
                self._unsaid.add(dtype)
                tell(f"tensors of type {dtype} cannot be saved whole; their statistics are")
            return
        host = host.contiguous()
        size = host.numel() * host.element_size()
        entries, before = self._raw.get((step, mode), ([], 0))
        if before + size > MAX_RAW_STEP:
            self.files.drop("raw bytes", size)
            return
        data = ctypes.string_at(host.data_ptr(), size) if size else b""
        entries.append((name, dtype, tuple(host.shape), data))
        self._raw[step, mode] = (entries, before + size)


def _stored(tensor: Any) -> tuple[Any, int]:
    """Return the stored values of a sparse tensor, and how many zeros are not stored."""
    values = tensor.to_sparse().coalesce().values()
    return values, tensor.numel() - values.numel()


def _with_zeros(found: Summary, zeros: int) -> Summary:
    """Add zeros that were not stored; quantiles are not known then."""
    if not zeros:
        return found
    count, nan, positive, negative, zero, tiny = found.counts
    counts = (count + zeros, nan, positive, negative, zero + zeros, tiny)
    low, high, mean, std, absolute = (0.0 if math.isnan(one) else one for one in found.statistics[:5])
    share = (count - nan - positive - negative) / (count - nan - positive - negative + zeros)
    square = (std * std + mean * mean) * share
    mean *= share
    std = math.sqrt(max(square - mean * mean, 0.0))
    return Summary(counts, (min(low, 0.0), max(high, 0.0), mean, std, absolute * share, _NAN, _NAN, _NAN))
