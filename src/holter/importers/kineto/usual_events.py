"""Rows of the usual events of torch.profiler, taken apart as columns: as the readers of events make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers.kineto import marks
from holter.importers.kineto.device_events import KernelArgs, WorkArgs, computing, copy_kind, placed
from holter.importers.kineto.host_events import OperatorArgs, calls, operator_rows, python_rows, steps
from holter.importers.kineto.kernel_kinds import collective, is_communication
from holter.importers.kineto.moments import of_fractions
from holter.importers.kineto.scanning import ARROW, MARK, NONE, Scanned, Scanner, ScanRule

if TYPE_CHECKING:
    import msgspec
    from numpy.typing import NDArray

    from holter.importers.trace import Trace

_WORK = ("device", "stream", "correlation", "bytes", "size")
"""Numbers that work of an accelerator carries, in the order in which they are taken."""
_MEMORY = ("Device Type", "Device Id", "Bytes", "Total Allocated", "Total Reserved")
_FEW = 0.5
"""Where a larger share of events is left to others in a file's first texts, it is not of the usual kind."""


def _fields(type_: type[msgspec.Struct]) -> list[str]:
    return [*type_.__struct_encode_fields__]


_OPERATORS = [ScanRule(cat, details=_fields(OperatorArgs)) for cat in ("cpu_op", "Operator")]
"""Each category by its name of today and by that of 2021."""
_KERNELS = [
    ScanRule(
        cat,
        numbers=_WORK[:3],
        details=_fields(KernelArgs)[len(_fields(WorkArgs)) :],
        others=_fields(WorkArgs)[3:],
    )
    for cat in ("kernel", "Kernel")
]
_COPIES = [
    ScanRule(cat, numbers=_WORK, others=("direction",))
    for cat in ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset")
]
_CALLS = [
    ScanRule(cat, numbers=("correlation",))
    for cat in (
        *(f"{maker}_{part}" for maker in ("cuda", "hip", "xpu") for part in ("runtime", "driver")),
        "Runtime",
    )
]
_PYTHON = ScanRule("python_function")
_ALLOCATIONS = ScanRule("cpu_instant_event", MARK, numbers=_MEMORY)
_ARROWS = [ScanRule(cat, ARROW) for cat in sorted(marks.LAUNCH_FLOWS)]
RULES = (*_OPERATORS, *_KERNELS, *_COPIES, *_CALLS, _PYTHON, _ALLOCATIONS, *_ARROWS)


class UsualEvents:
    """Takes the usual events of one file into its trace; the others are returned.

    Raises:
        LookupError: Nothing is compiled here that could.
    """

    _names: NDArray[np.int32]
    _details: NDArray[np.int32]
    """The numbers that the trace gives to texts, by those that the scanner gives them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._scanner = Scanner(RULES)
        self._forget()
        self._scanned: Scanned | None = None
        self._looked, self._left = 0, 0

    def scan(self, text: memoryview) -> bytes | None:
        """Take a list of events apart; returns those that are left to others, None if it cannot be read so.

        Nothing is in the trace before `take`.
        """
        if self._looked > 1 << 14 and self._left > _FEW * self._looked:
            return None
        try:
            if self._texts is not self._trace.staging.texts:
                self._forget()
            found = self._scanner.scan(text)
            if found is None:
                return None
            names, details = self._scanner.new_names(), self._scanner.new_details()
        except ValueError:  # not a number: the decoder of single events copes with it
            self._forget()
            return None
        self._told += names
        self._names = _grown(self._names, self._texts.codes(names, np.int32))
        self._details = _grown(self._details, self._texts.codes(details, np.int32))
        self._scanned, rest = found
        self._left += rest.count(b'"ph"')
        self._looked += self._scanned.events + rest.count(b'"ph"')
        return rest

    def take(self) -> None:
        """Put the rows of what was taken apart last into the trace."""
        scanned = self._scanned
        if scanned is None:
            return
        self._scanned = None
        trace = self._trace
        trace.events += scanned.events
        if scanned.omitted:
            trace.omitted["arrows from launches to kernels"] += scanned.omitted
        order = np.argsort(scanned.category, kind="stable")
        categories = scanned.category[order]
        for number in np.unique(categories).tolist():
            first, last = np.searchsorted(categories, (number, number + 1))
            self._append(RULES[number], scanned, order[first:last])

    def close(self) -> None:
        """Give its memory back."""
        self._scanner.close()

    def _append(self, rule: ScanRule, scanned: Scanned, rows: NDArray[np.int64]) -> None:
        trace = self._trace
        time = of_fractions(scanned.time[rows])
        numbers = scanned.numbers[rows].T
        if rule is _ALLOCATIONS:
            told = np.where(numbers == NONE, np.nan, numbers)
            change, allocated, reserved = told[2:5]
            by_kind = {"allocated": allocated, "reserved": reserved, "change": change}
            types, devices = _or(numbers[0], -1), _or(numbers[1], -1)
            marks.memory_rows(trace, time, types, devices, by_kind)
            return
        duration = trace.lengths(of_fractions(scanned.duration[rows]))
        process, own = scanned.process[rows], scanned.thread[rows]
        name = self._names[scanned.name[rows]]
        if rule in (*_KERNELS, *_COPIES):
            device, stream = placed(trace, _or(numbers[0], process), _or(numbers[1], own))
            columns = (
                self._kernels(scanned, rows) if rule in _KERNELS else self._copies(scanned, rows, numbers)
            )
            trace.append(
                "kernels" if rule in _KERNELS else "memory_operations",
                time=time,
                duration=duration,
                device=device,
                stream=stream,
                correlation=_or(numbers[2], 0),
                **columns,
            )
            return
        thread = trace.threads.numbers_of(process, own)
        if rule in _OPERATORS:
            operator_rows(trace, name, thread, time, duration, "operator", self._detail(scanned, rows))
            steps(trace, name, time, duration)
        elif rule is _PYTHON:
            python_rows(trace, name, thread, time, duration)
        else:
            calls(trace, name, thread, time, duration, _or(numbers[0], 0))

    def _detail(self, scanned: Scanned, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        # The number of what is not there is -1: the last.
        return np.append(self._details, np.int32(self._texts[b"{}"]))[scanned.detail[rows]]

    def _kernels(self, scanned: Scanned, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        texts, name = self._texts, self._names[scanned.name[rows]]
        columns = computing(self._trace, name)
        communicating = np.flatnonzero(self._trace.texts_that(is_communication, name))
        if len(communicating):
            columns["kind"][communicating] = texts["communication"]
            which = scanned.name[rows][communicating]
            for number in np.unique(which).tolist():
                columns["collective"][communicating[which == number]] = texts[collective(self._told[number])]
        return {**columns, "detail": self._detail(scanned, rows)}

    def _copies(
        self, scanned: Scanned, rows: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        found, place = np.unique(scanned.name[rows], return_inverse=True)
        kinds = [copy_kind(f"{self._told[number]} ") for number in found.tolist()]
        kind, memory = (self._texts.codes(words, np.int32)[place] for words in zip(*kinds, strict=True))
        moved = _or(numbers[3], _or(numbers[4], 0))
        return {"kind": kind, "memory": memory, "bytes": moved}

    def _forget(self) -> None:
        """Begin anew with texts."""
        self._scanner.forget()
        self._texts = self._trace.staging.texts
        self._names = self._details = np.zeros(0, np.int32)
        self._told: list[str] = []


def _or(numbers: NDArray[np.int64], default: Any) -> NDArray[np.int64]:
    return np.where(numbers == NONE, default, numbers)


def _grown(codes: NDArray[np.int32], new: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.concatenate((codes, new)) if len(new) else codes
