"""Computes and writes what collections keep of a tensor: statistics, values, histograms, bytes."""

from __future__ import annotations

import contextlib
import math
import struct
import threading
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.recorder.frameworks.pytorch.tensors.batched_rows import BatchedRows, PendingRow
from holter.recorder.frameworks.pytorch.tensors.changes import Changes, FullRows
from holter.recorder.frameworks.pytorch.tensors.fingerprints import Fingerprints
from holter.recorder.frameworks.pytorch.tensors.names import local, part_of
from holter.recorder.frameworks.pytorch.tensors.on_device import on_device
from holter.recorder.frameworks.pytorch.tensors.raw_tensors import RawTensors
from holter.recorder.frameworks.pytorch.tensors.statistics import EXACT, SLAB, Statistics, stored
from holter.recorder.frameworks.pytorch.tensors.summaries import EMPTY, Summary, with_zeros
from holter.recorder.frameworks.pytorch.tensors.values import described, too_large
from holter.recorder.tensors.collections import EACH
from holter.recorder.tensors.time_budget import TimeBudget, TooLong
from holter.recorder.tensors.writing import NO_DELTAS
from holter.schema.tensor_spool import STATES, Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.tensors.arrivals import Arrivals
    from holter.recorder.tensors.collections import Collection, TensorInfo
    from holter.recorder.tensors.writing import TensorFiles

SMALL = 1 << 14
_MAX_PLANS = 1 << 16
_SAVED_WHOLE = {"loss", "labels", "predictions", "token_ids"}
"""Roles of tensors whose elements are stored if there are at most `SMALL`."""


class SavePlan(NamedTuple):
    """What is kept of one tensor while some collections are due."""

    due: tuple[Collection, ...]
    """Keeps the collections alive: the plan is found by their ids."""
    holds: bool
    wanted: frozenset[str]
    kept: frozenset[str]


class RowKey(NamedTuple):
    """Identifies the row of a tensor."""

    what: TensorInfo
    when: int
    step: int
    mode: int
    number: int
    state: int
    zeros: int
    """Zeros that a sparse tensor does not store."""


class Sink:
    """Takes tensors of the step that is being saved."""

    def __init__(
        self, adapter: AdapterState, files: TensorFiles, arrivals: Arrivals, time_budget: TimeBudget
    ) -> None:
        self.files = files
        self._time_budget = time_budget
        self.statistics = Statistics(adapter.torch)
        self._fingerprints = Fingerprints(adapter.torch)
        self._changes = Changes(adapter.torch, self.statistics)
        self._together = BatchedRows(adapter.torch, self.statistics, self._fingerprints)
        self._full_rows = FullRows()
        self._plans: dict[tuple[TensorInfo, tuple[int, ...]], SavePlan] = {}
        self.healthy: dict[str, dict[str, float]] = {}
        """Statistics of the last row without a nonfinite element, by tensor."""
        self._torch = adapter.torch
        self._arrivals = arrivals
        self._whole = RawTensors(files)
        self._lock = threading.Lock()

    def take(
        self,
        tensor: Any,
        what: TensorInfo,
        due: Sequence[Collection],
        step: int,
        mode: int,
        *,
        state: str = "",
        scale: Any = None,
        together: bool = False,
    ) -> None:
        """Keep what the collections of a tensor ask for.

        `state` is one of `STATES`, `scale` the divisor of values that a scaler has scaled. With `together`,
        the row may be computed at the end of `completing`; the tensor must not change until then.
        """
        plan = self._plan(what, due)
        if not (plan.wanted or plan.kept):
            return
        part, tensor = part_of(tensor), local(tensor.detach())
        size, device = tensor.numel(), tensor.device.type
        if device not in ("cpu", "cuda"):
            return
        if size > SLAB and device == "cpu" and not self._time_budget.ready(what.name):
            return
        with self._lock:  # scripts save tensors from any thread
            began, zeros, data = perf_counter_ns(), 0, tensor
            try:
                if data.layout is not self._torch.strided:
                    data, zeros = stored(data)
                if scale is not None:
                    data = data / scale.to(data.device)
                    together = together and data.numel() <= EXACT  # the copies take memory
                number = self.files.id(what, part)
                row = RowKey(what, began, step, mode, number, STATES.index(state), zeros)
                if plan.wanted:
                    self._row(data, row, plan.wanted, together=together)
                self._values(data, row, plan.kept)
            except TooLong as error:
                self._time_budget.gave_up(what.name, size * tensor.element_size(), error.takes)
                return
        if size > SLAB:
            self._time_budget.took(what.name, perf_counter_ns() - began)

    @contextlib.contextmanager
    def completing(self) -> Iterator[None]:
        """Compute the rows of tensors that were taken together inside; forget them after a fault."""
        try:
            yield
            with self._lock:
                self._together.complete()
        finally:
            self._together.forget()

    def _plan(self, what: TensorInfo, due: Sequence[Collection]) -> SavePlan:
        """Return what is kept of a tensor; plans are cached."""
        key = (what, tuple(map(id, due)))
        plan = self._plans.get(key)
        if plan is None:
            of = [one for one in due if one.holds(what)]
            wanted = frozenset(name for one in of for name in one.statistics)
            kept = frozenset(name for one in of for name in one.kept)
            if len(self._plans) > _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[key] = SavePlan(tuple(due), bool(of), wanted, kept)
        return plan

    def _values(self, tensor: Any, row: RowKey, kept: frozenset[str]) -> None:
        what = row.what
        if row.zeros:
            kept -= {"abs_min", "prod"}  # both are 0
        if (what.role in _SAVED_WHOLE or what.kind == "custom") and tensor.numel() <= SMALL:
            kept |= {"values"}
        if not kept:
            return
        excluded = too_large(tensor, kept)
        if excluded:
            self._time_budget.too_large(what.name, tensor.numel(), excluded)
        if "raw" in kept:
            self._arrivals.pass_on(tensor, lambda host: self._whole.keep(host, what.name, row.step, row.mode))
        for kind, values in described(self._torch, tensor, what.role, kept, self.statistics):
            self._arrivals.pass_on(values, partial(self._write_values, row, kind))

    def absent(
        self, of: Any, what: TensorInfo, due: Sequence[Collection], step: int, mode: int, state: str
    ) -> None:
        """Keep a row for a tensor that does not exist at this step; `of` is the parameter that lacks it."""
        if self._plan(what, due).holds:
            number = self.files.id(what, part_of(of))
            self.files.row(perf_counter_ns(), step, mode, number, (0,) * 6, EMPTY, state=STATES.index(state))

    def finish(self) -> None:
        """Send results on a device and write the others at the end of a step."""
        self._arrivals.send()
        self.flush()

    def forked(self) -> None:
        """Forget what waits in a forked child."""
        self._lock = threading.Lock()
        self._whole.forget()
        self._changes.forget()
        self._together.forget()

    def flush(self) -> None:
        """Write what waits; also called when results have arrived from a device."""
        self._whole.write()
        self.files.flush()

    def _row(self, tensor: Any, row: RowKey, wanted: frozenset[str], *, together: bool) -> None:
        what = row.what
        change = what.kind == "parameter" and "delta" in wanted
        # Hashes of inputs of the model identify equal batches.
        hashed = "fingerprint" in wanted and (
            what.kind == "parameter" or (what.root and what.kind == "input")
        )
        hashed &= tensor.is_contiguous() or tensor.numel() <= SLAB  # else it would be copied
        quantiles = "quantiles" in wanted
        if together and EACH not in wanted and not self._full_rows.holds(what.name, row.step):
            hashed = quantiles = False

        def done(found: Summary, deltas: Sequence[float], fingerprint: int) -> None:
            if change:
                fingerprint = self._full_rows.print(what.name, fingerprint, deltas)
            self._write_row(row, found, deltas, fingerprint)

        if together and self._together.takes(tensor):
            before = self._changes.before(tensor, what.name) if change else None
            self._together.add(PendingRow(tensor, before, hashed, quantiles, done))
            return
        deltas = self._changes.of(tensor, what.name) if change else NO_DELTAS
        fingerprint = self._fingerprints.of(tensor) if hashed else 0
        if tensor.device.type == "cuda":
            self._row_later(tensor, row, deltas, fingerprint, quantiles=quantiles)
            return
        found = self.statistics.of(tensor, quantiles=quantiles)
        done(found, tuple(float(one) for one in deltas), int(fingerprint))

    def _row_later(self, tensor: Any, row: RowKey, deltas: Any, fingerprint: Any, *, quantiles: bool) -> None:
        """Compute a row on a device: all numbers become one vector, the hash as two halves."""
        torch = self._torch
        count = tensor.numel()
        vector = on_device(torch, tensor, quantiles=quantiles)
        halves, changes = vector.new_zeros(2), vector.new_full((3,), math.nan)
        if isinstance(fingerprint, torch.Tensor):
            halves = torch.stack([fingerprint >> 32, fingerprint & 0xFFFF_FFFF]).double()
        if deltas is not NO_DELTAS:
            changes = torch.stack([one.double() for one in deltas])

        def arrived(host: Any) -> None:
            numbers = host.tolist()
            counts = (count, *(int(one) for one in numbers[:5]))
            hash_ = (int(numbers[16]) << 32) + int(numbers[17])
            self._write_row(row, Summary(counts, tuple(numbers[5:13])), numbers[13:16], hash_)

        self._arrivals.later(torch.cat([vector, changes, halves]), arrived)

    def _write_row(self, row: RowKey, found: Summary, deltas: Sequence[float], fingerprint: int) -> None:
        found = with_zeros(found, row.zeros)
        if not any(found.counts[1:4]):
            low, high, mean, std = found.statistics[:4]
            numbers = {"step": row.step, "min": low, "max": high, "mean": mean, "std": std}
            self.healthy[row.what.name] = numbers
        at = (row.when, row.step, row.mode, row.number)
        self.files.row(*at, found.counts, found.statistics, deltas, fingerprint, row.state)

    def _write_values(self, row: RowKey, kind: Values, host: Any) -> None:
        numbers = host.double().reshape(-1).tolist()
        data = struct.pack(f"<{len(numbers)}d", *numbers)
        self.files.values(row.when, row.step, row.mode, row.number, kind, data)
