"""Computes rows of many tensors at once: small tensors as one matrix, quantiles in few sorts.

Models have many small parameters, and a call of torch costs as much as reading thousands of elements. A read
of a large tensor empties the caches, so Python code for all large tensors runs before and after the reads:
between them it would take several times as long.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.statistics import EXACT, SLAB, Statistics, smallest_normal
from holter.recorder.frameworks.pytorch.tensors.summaries import Summary
from holter.recorder.tensors.writing import NO_DELTAS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.frameworks.pytorch.tensors.fingerprints import Fingerprints

_TOGETHER = 1 << 17
"""Elements of a matrix of small tensors."""


@dataclass(slots=True)
class PendingRow:
    """A tensor whose row is not complete."""

    tensor: Any
    before: Any
    """Its copy at its last row, or None; is overwritten with the tensor."""
    hashed: bool
    quantiles: bool
    done: Callable[[Summary, Sequence[float], int], None]
    """Takes statistics, changes and fingerprint, and writes the row."""


class BatchedRows:
    """Takes tensors of the host and computes their rows in `complete`; they must not change in between."""

    def __init__(self, torch: Any, statistics: Statistics, fingerprints: Fingerprints) -> None:
        self._torch = torch
        self._statistics = statistics
        self._fingerprints = fingerprints
        self._half = (torch.float32, torch.bfloat16, torch.float16)
        self._small: dict[tuple[Any, int], list[PendingRow]] = defaultdict(list)
        self._large: list[PendingRow] = []

    def takes(self, tensor: Any) -> bool:
        """Whether a tensor can be summarized together with others."""
        count = tensor.numel()
        if tensor.device.type != "cpu" or tensor.dtype not in self._half:
            return False
        return bool(0 < count <= EXACT or (EXACT < count <= SLAB and tensor.is_contiguous()))

    def add(self, one: PendingRow) -> None:
        """Add a tensor that `takes` accepts."""
        count = one.tensor.numel()
        if count <= EXACT:
            self._small[one.tensor.dtype, count].append(one)
        else:
            self._large.append(one)

    def forget(self) -> None:
        """Forget the tensors that wait."""
        self._small.clear()
        self._large.clear()

    def complete(self) -> None:
        """Compute all rows that wait."""
        small, self._small = self._small, defaultdict(list)
        large, self._large = self._large, []
        found = [self._read(one) for one in large]  # nothing else between the reads
        self._add_quantiles(large, [summary for summary, *_ in found])
        for one, (summary, deltas, fingerprint) in zip(large, found, strict=True):
            one.done(summary, deltas, fingerprint)
        for (dtype, size), waiting in small.items():
            most = max(_TOGETHER // size, 1)
            for begin in range(0, len(waiting), most):
                self._summarize(waiting[begin : begin + most], dtype)

    def _read(self, one: PendingRow) -> tuple[Summary, Sequence[float], int]:
        fingerprint = int(self._fingerprints.of(one.tensor)) if one.hashed else 0
        found, deltas = self._statistics.brief(one.tensor, one.before)
        if one.quantiles and any(found.counts[1:4]):
            found = self._statistics.of(one.tensor)
        return found, NO_DELTAS if deltas is None else deltas, fingerprint

    def _add_quantiles(self, large: list[PendingRow], found: list[Summary]) -> None:
        """Add the quantiles of rows that need them."""
        samples: dict[int, list[tuple[Any, Summary]]] = defaultdict(list)
        for one, summary in zip(large, found, strict=True):
            if one.quantiles and not any(summary.counts[1:4]):
                sample = self._statistics.flat(self._statistics.sample(one.tensor.view(-1)))
                samples[sample.numel()].append((sample, summary))
        for of_one_size in samples.values():
            table = self._torch.stack([sample for sample, _ in of_one_size])
            rows = self._statistics.quantiles(table).tolist()
            for (_, summary), numbers in zip(of_one_size, rows, strict=True):
                summary.statistics = (*summary.statistics[:5], *numbers)

    def _summarize(self, waiting: list[PendingRow], dtype: Any) -> None:
        torch = self._torch
        given = torch.stack([one.tensor.reshape(-1) for one in waiting])
        table = given.double()
        count = table.shape[1]
        low, high = table.amin(1), table.amax(1)
        magnitudes = table.abs()
        zeros = (table == 0).sum(1)
        small = (magnitudes < smallest_normal(torch, dtype)).sum(1) - zeros
        mean = table.mean(1)
        std = (table - mean[:, None]).square_().mean(1).sqrt_().masked_fill_(low == high, 0.0)
        columns = [zeros, small, low, high, mean, std, magnitudes.mean(1)]
        rows = torch.stack([one.double() for one in columns], 1)
        if any(one.quantiles for one in waiting):
            rows = torch.cat([rows, self._statistics.quantiles(table)], 1)
        finite = torch.isfinite(low + high).tolist()
        changes, prints = self._changes(waiting, table), self._prints(waiting, given)
        for at, (one, numbers) in enumerate(zip(waiting, rows.tolist(), strict=True)):
            if finite[at]:
                around = numbers[7:] if one.quantiles else NO_DELTAS
                counts = (count, 0, 0, 0, int(numbers[0]), int(numbers[1]))
                found = Summary(counts, (*numbers[2:7], *around))
            else:
                found = self._statistics.of(one.tensor, quantiles=one.quantiles)
            one.done(found, changes.get(at, NO_DELTAS), prints.get(at, 0))

    def _changes(self, waiting: list[PendingRow], table: Any) -> dict[int, Sequence[float]]:
        torch = self._torch
        places = [at for at, one in enumerate(waiting) if one.before is not None]
        if not places:
            return {}
        before = torch.stack([waiting[at].before.reshape(-1) for at in places])
        difference = (table if len(places) == len(waiting) else table[places]).sub(before)
        norm = torch.linalg.vector_norm(difference, dim=1)
        difference.abs_()
        for at in places:
            waiting[at].before.copy_(waiting[at].tensor)
        found = torch.stack([norm, difference.mean(1), difference.amax(1)], 1).tolist()
        return dict(zip(places, found, strict=True))

    def _prints(self, waiting: list[PendingRow], given: Any) -> dict[int, int]:
        places = [at for at, one in enumerate(waiting) if one.hashed]
        if not places:
            return {}
        table = given if len(places) == len(waiting) else given[places]
        return dict(zip(places, self._fingerprints.rows(table).tolist(), strict=True))
