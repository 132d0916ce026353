"""Computes what the collections of a tensor keep: statistics, values, histograms, bytes."""

from __future__ import annotations

import contextlib
import struct
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.recorder.frameworks.pytorch.tensors.batched_rows import BatchedRows, PendingRow
from holter.recorder.frameworks.pytorch.tensors.changes import NO_DELTAS, Changes, FullRows
from holter.recorder.frameworks.pytorch.tensors.fingerprints import Fingerprints
from holter.recorder.frameworks.pytorch.tensors.names import local, part_of
from holter.recorder.frameworks.pytorch.tensors.on_device import on_device
from holter.recorder.frameworks.pytorch.tensors.raw_tensors import RawTensors
from holter.recorder.frameworks.pytorch.tensors.repeats import stored
from holter.recorder.frameworks.pytorch.tensors.statistics import EXACT, SLAB, Statistics
from holter.recorder.frameworks.pytorch.tensors.summaries import EMPTY, Summary, with_zeros
from holter.recorder.frameworks.pytorch.tensors.values import described, too_large
from holter.recorder.tensors.collections import EACH
from holter.recorder.tensors.time_budget import TimeBudget, TooLong
from holter.schema.tensor_spool import STATES, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.tensors.arrivals import Arrivals
    from holter.recorder.tensors.collections import Collection, TensorInfo
    from holter.recorder.tensors.writing import TensorFiles

_NAN = float("nan")
SMALL = 1 << 14
_MANY_PLANS = 1 << 16
_TOLD_WHOLE = {"loss", "labels", "predictions", "token_ids"}
"""Roles of tensors whose elements are stored, if they are no more than `SMALL`, as of those scripts save."""


class SavePlan(NamedTuple):
    """What is kept of one tensor while some collections are due."""

    due: tuple[Collection, ...]
    """Kept, so that the ids it is found by are not those of other collections."""
    holds: bool
    wanted: frozenset[str]
    kept: frozenset[str]


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
        self.healthy: dict[str, dict[str, Any]] = {}
        """Of each tensor the statistics of its last row without a non-finite element."""
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
        """Keep of a tensor what its collections ask for.

        Args:
            tensor: Any tensor; one that is taken together must stay as it is until `settled` ends.
            what: What is known of it.
            due: Collections that are saved now.
            step: The step.
            mode: The number of the mode.
            state: One of `STATES`.
            scale: What its values are multiplied by.
            together: Whether its row may wait for the end of `settled`, to be made together with others.
        """
        plan = self._plan(what, due)
        if not (plan.wanted or plan.kept):
            return
        part, tensor = part_of(tensor), local(tensor.detach())
        size = tensor.numel()
        if size > SLAB and tensor.device.type == "cpu" and not self._time_budget.ready(what.name):
            return
        with self._lock:  # scripts save tensors of their own from any thread
            began = perf_counter_ns()
            try:
                self._take(tensor, what, part, plan, step, mode, state, scale, together=together)
            except TooLong as error:
                self._time_budget.gave_up(what.name, size * tensor.element_size(), error.takes)
                return
        if size > SLAB:
            self._time_budget.took(what.name, perf_counter_ns() - began)

    @contextlib.contextmanager
    def settled(self) -> Iterator[None]:
        """Complete the rows of tensors that were taken together inside; forget them after a fault."""
        try:
            yield
            with self._lock:
                self._together.settle()
        finally:
            self._together.forget()

    def _plan(self, what: TensorInfo, due: Sequence[Collection]) -> SavePlan:
        """Return what is kept of a tensor; the answer is remembered, with the collections it holds for."""
        key = (what, tuple(map(id, due)))
        plan = self._plans.get(key)
        if plan is None:
            of = [one for one in due if one.holds(what)]
            wanted = frozenset(name for one in of for name in one.statistics)
            kept = frozenset(name for one in of for name in one.kept)
            if len(self._plans) > _MANY_PLANS:
                self._plans.clear()
            plan = self._plans[key] = SavePlan(tuple(due), bool(of), wanted, kept)
        return plan

    def _take(
        self,
        tensor: Any,
        what: TensorInfo,
        part: tuple[int, int],
        plan: SavePlan,
        step: int,
        mode: int,
        state: str,
        scale: Any,
        *,
        together: bool,
    ) -> None:
        if tensor.device.type not in ("cpu", "cuda"):
            return
        when = perf_counter_ns()
        number = self.files.id(what, part)
        absent = 0
        if tensor.layout is not self._torch.strided:
            tensor, absent = stored(tensor)
        if scale is not None:
            tensor = tensor / scale.to(tensor.device)
            together = together and tensor.numel() <= EXACT  # a copy: not of all of them at once
        if plan.wanted:
            at = (when, step, mode, number)
            self._row(tensor, what, plan.wanted, at, absent, STATES.index(state), together=together)
        kept = plan.kept - {"abs_min", "prod"} if absent else plan.kept  # both are 0, as zeros say
        if (what.role in _TOLD_WHOLE or what.kind == "custom") and tensor.numel() <= SMALL:
            kept |= {"values"}
        if not kept:
            return
        none = too_large(tensor, kept)
        if none:
            self._time_budget.too_large(what.name, tensor.numel(), none)
        if "raw" in kept:
            self._later(tensor, lambda host: self._whole.keep(host, what.name, step, mode))
        for kind, values in described(self._torch, tensor, what.role, kept, self.statistics):
            write = self._writer(when, step, mode, number, kind)
            self._later(values, write)

    def absent(
        self, of: Any, what: TensorInfo, due: Sequence[Collection], step: int, mode: int, state: str
    ) -> None:
        """Keep a row that says that there is no such tensor at this step; `of`: the parameter without it."""
        if self._plan(what, due).holds:
            number = self.files.id(what, part_of(of))
            self.files.row(perf_counter_ns(), step, mode, number, (0,) * 6, EMPTY, state=STATES.index(state))

    def finish(self) -> None:
        """The step is over: send what is on a device, write what is here."""
        self._arrivals.send()
        self.flush()

    def forked(self) -> None:
        """Give up what waits: it is the parent's."""
        self._lock = threading.Lock()
        self._whole.forget()
        self._changes.forget()
        self._together.forget()

    def flush(self) -> None:
        """Write what waits; called once more when results have arrived from a device."""
        self._whole.write()
        self.files.flush()

    def _row(
        self,
        tensor: Any,
        what: TensorInfo,
        wanted: frozenset[str],
        at: tuple[int, int, int, int],
        absent: int,
        state: int,
        *,
        together: bool,
    ) -> None:
        change = what.kind == "parameter" and "delta" in wanted
        # Batches have one too: it identifies equal batches.
        hashed = "fingerprint" in wanted and (
            what.kind == "parameter" or (what.root and what.kind == "input")
        )
        hashed &= tensor.is_contiguous() or tensor.numel() <= SLAB  # nothing that is large is copied
        quantiles = "quantiles" in wanted
        if together and EACH not in wanted and not self._full_rows.holds(what.name, at[1]):
            hashed = quantiles = False

        def done(found: Summary, deltas: Sequence[float], fingerprint: int) -> None:
            if change:
                fingerprint = self._full_rows.print(what.name, fingerprint, deltas)
            found = with_zeros(found, absent)
            self._note(what, at[1], found)
            self.files.row(*at, found.counts, found.statistics, deltas, fingerprint, state)

        if together and self._together.takes(tensor):
            before = self._changes.before(tensor, what.name) if change else None
            self._together.add(PendingRow(tensor, before, hashed, quantiles, done))
            return
        deltas = self._changes.of(tensor, what.name) if change else NO_DELTAS
        fingerprint = self._fingerprints.of(tensor) if hashed else 0
        if tensor.device.type == "cuda":
            self._row_later(tensor, what, at, deltas, fingerprint, absent, state, quantiles)
            return
        found = self.statistics.of(tensor, quantiles=quantiles)
        done(found, tuple(float(one) for one in deltas), int(fingerprint))

    def _row_later(
        self,
        tensor: Any,
        what: TensorInfo,
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
            if deltas is not NO_DELTAS
            else vector.new_full((3,), _NAN)
        )

        def arrived(host: Any) -> None:
            numbers = host.tolist()
            counts = (count, *(int(one) for one in numbers[:5]))
            found = with_zeros(Summary(counts, tuple(numbers[5:13])), absent)
            self._note(what, at[1], found)
            hash_ = (int(numbers[16]) << 32) + int(numbers[17])
            self.files.row(*at, found.counts, found.statistics, numbers[13:16], hash_, state)

        self._arrivals.later(torch.cat([vector, changes, halves]), arrived)

    def _note(self, what: TensorInfo, step: int, found: Summary) -> None:
        if not any(found.counts[1:4]):
            low, high, mean, std = found.statistics[:4]
            self.healthy[what.name] = {"step": step, "min": low, "max": high, "mean": mean, "std": std}

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
