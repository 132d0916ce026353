"""One tensor of a job: its steps, its values, its reductions, its shape."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from holter.analysis.tensors.reductions import ASKED, REDUCTIONS, of_elements
from holter.frame import Rows
from holter.store.parquet.queries import literal
from holter.store.raw_tensors import DamagedRaw, RawTensor
from holter.tensors.completeness import StepState
from holter.tensors.errors import (
    IndexReaderException,
    InvalidWorker,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
    some,
)
from holter.tensors.history import check_reductions, each_part, history_of, last_of, nothing_finite, reduced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.store.saved_tensors import Writing
    from holter.tensors.source import Source

_MODES = ("train", "eval", "predict", "global")
"""In which order a step is looked for when no mode is given."""

T = TypeVar("T")
Rank = int | Literal["all"] | None


class Tensor:
    """One tensor. A mode is `train`, `eval`, `predict`, `global`, None for any; steps are global ones."""

    def __init__(self, source: Source, name: str) -> None:
        self.source = source
        self.name = name
        self._revision = -1
        self._by_step: dict[int, list[Writing]] = {}

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}: steps {some(self.steps(incomplete=True))})"

    def _repr_html_(self) -> str:
        return Rows(self.source.rows(self.name))._repr_html_()

    @property
    def roles(self) -> set[str]:
        """What it is: weight, grad, loss, ..."""
        self.source.refresh_names()
        return set(self.source.saved.roles.get(self.name, ()))

    @property
    def modes(self) -> list[str]:
        """Modes in which it was saved."""
        return sorted({mode for _, mode, _ in self._writings()})

    @property
    def ranks(self) -> list[int]:
        """Ranks that saved it."""
        return sorted({rank for _, _, rank in self._writings()})

    def ranks_at(self, step: int, mode: str | None = None) -> list[int]:
        """Return the ranks that saved it at a step; raises as `value` does for a step that is not there."""
        return sorted(rank for _, _, rank in self._at(step, mode))

    def steps(self, mode: str | None = None, *, incomplete: bool = False) -> list[int]:
        """Return the steps at which it was saved: the complete ones, or all."""
        writings = self._writings()
        steps = sorted({step for step, mode_, _ in writings if mode in (None, mode_)})
        return steps if incomplete else [s for s in steps if self.source.completeness.complete(s)]

    def prev_steps(self, step: int, n: int | None = None, mode: str | None = None) -> list[int]:
        """Return the last `n` saved steps up to and with `step`; all when `n` is None or 0."""
        before = [s for s in self.steps(mode) if s <= step]
        return before[-n:] if n else before

    def value(self, step: int, mode: str | None = None, rank: int | None = None) -> NDArray[Any]:
        """Return the elements at a step: mapped from the file, read-only; bfloat16 and float8 as float32.

        Args:
            step: Global step.
            mode: Mode; None for the one in which it was saved, train first.
            rank: Who saved it; None for the lowest rank.

        Raises:
            StepUnavailable: Nothing was saved at this step, nor will be.
            StepNotYetAvailable: It may still come.
            TensorUnavailableForStep: It was not saved then, or only statistics of it.
            InvalidWorker: This rank did not save it.
            IndexReaderException: The file is damaged.
        """
        writing = self._writing(step, mode, rank)
        raw = self.raw(*writing)
        if raw is not None:
            return _reading(raw.array)
        small = self._small(writing)
        if small is None:
            raise TensorUnavailableForStep(
                self.name, step, mode, has_reductions=self._stored(writing).rows > 0
            )
        return small

    def values(self, mode: str | None = None, rank: int | None = None) -> dict[int, NDArray[Any]]:
        """Return the elements at every complete step that has them, by step."""
        return self._each(self.value, mode, rank)

    def raw(self, step: int, mode: str, rank: int) -> RawTensor | None:
        """Return where its elements lie in a file, if they were saved: type, shape, bits."""
        return _reading(lambda: self.source.saved.raw((step, mode, rank), self.name))

    def to_torch(self, step: int, mode: str | None = None, rank: int | None = None) -> Any:
        """Return a copy of the elements as a torch tensor of its type; raises `ImportError` without torch."""
        import torch

        writing = self._writing(step, mode, rank)
        raw = self.raw(*writing)
        if raw is None:
            return torch.from_numpy(np.array(self.value(step, mode, rank)))
        stored = np.array(_reading(raw.stored))
        return torch.from_numpy(stored).view(getattr(torch, raw.dtype))

    def shape(self, step: int, mode: str | None = None, rank: int | None = None) -> tuple[int, ...]:
        """Return the sizes at a step; raises `ShapeUnavailableForStep` when only statistics were saved."""
        writing = self._writing(step, mode, rank)
        raw = self.raw(*writing)
        if raw is not None:
            return raw.shape
        sizes = self.source.elements(self.name, writing, "shape")
        if sizes.size:
            return tuple(int(size) for size in sizes)
        small = self._small(writing)
        if small is not None:
            return small.shape
        raise ShapeUnavailableForStep(self.name, step, mode)

    def shapes(self, mode: str | None = None, rank: int | None = None) -> dict[int, tuple[int, ...]]:
        """Return the sizes at every complete step that has them, by step."""
        return self._each(self.shape, mode, rank)

    def _each(self, read: Callable[..., T], mode: str | None, rank: int | None) -> dict[int, T]:
        found = {}
        for step in self.steps(mode):
            with suppress(TensorUnavailableForStep, ShapeUnavailableForStep, InvalidWorker):
                found[step] = read(step, mode, rank)
        return found

    def reduction(self, name: str, step: int, mode: str | None = None, rank: Rank = None) -> float:
        """Return one reduction at a step: from the statistics that were stored, else from the elements.

        Args:
            name: `min max mean std variance sum prod l1 l2 rms median q05 q50 q95`, their `abs_` forms,
                counts as `nan` and `zeros`, changes as `delta_l2`: see `holter.analysis.tensors.reductions`.
            step: Global step.
            mode: Mode; None for the one in which it was saved, train first.
            rank: Who saved it; None for the lowest rank; `"all"` combines the parts of all ranks.

        Raises:
            ValueError: There is no such reduction.
            TensorUnavailableForStep: It cannot be known from what was saved, or a part of it is missing.
        """
        check_reductions([name])
        chosen, stored = self._chosen(step, mode, rank)
        whole = stored.rows == len(chosen)
        value = float(reduced(stored, combine=rank == "all")[name][0]) if whole else float("nan")
        if np.isnan(value):
            value = self._from_elements(name, chosen)
        if np.isnan(value) and not (stored.rows and nothing_finite(stored)):
            raise TensorUnavailableForStep(self.name, step, mode, hint=f"{name} of it cannot be known")
        return value

    def reductions(self, step: int, mode: str | None = None, rank: Rank = None) -> dict[str, float]:
        """Return every reduction that is known at a step from stored statistics, by name."""
        _, stored = self._chosen(step, mode, rank)
        found = reduced(stored, combine=rank == "all") if stored.rows else {}
        known = {name: float(values[0]) for name, values in found.items() if name in REDUCTIONS}
        return {name: value for name, value in known.items() if not np.isnan(value)}

    def history(self, *names: str, mode: str | None = None, rank: Rank = None) -> Rows:
        """Return reductions at every step as a table with step, mode, rank and a column for each.

        Args:
            names: Reductions; all when none is given.
            mode: Only this mode.
            rank: Only this rank; `"all"` combines the ranks of each step, None leaves each rank a row.
        """
        check_reductions(names)
        rows = self.source.rows(self.name)
        if mode is not None:
            rows = rows.where(rows["mode"] == mode)
        if isinstance(rank, int):
            rows = rows.where(rows["rank"] == rank)
        asked = self._asked if self.name in self.source.saved.valued else None
        return history_of(rows, names, combine=rank == "all", asked=asked)

    def _chosen(self, step: int, mode: str | None, rank: Rank) -> tuple[Sequence[Writing], Table]:
        """Return what is read at a step, and the statistics that were stored of it."""
        there = self._at(step, mode) if rank == "all" else [self._writing(step, mode, rank)]
        chosen = each_part(self.name, there, self._stored(*there)) if rank == "all" else there
        return chosen, self._stored(*chosen)

    def _from_elements(self, name: str, chosen: Sequence[Writing]) -> float:
        if name in ASKED:
            kind, join = ASKED[name]
            parts = [self.source.elements(self.name, one, kind) for one in chosen]
            if all(part.size for part in parts):
                return join([float(part[-1]) for part in parts])
        arrays = []
        for writing in chosen:
            raw = self.raw(*writing)
            array = self._small(writing) if raw is None else _reading(raw.array)
            if array is None or array.dtype.kind in "cU":
                return float("nan")
            arrays.append(np.asarray(array).reshape(-1))
        return of_elements(np.concatenate(arrays))[name]

    def _writings(self) -> list[Writing]:
        """Return when, in which mode and by whom it was saved, in order."""
        self.source.refresh()
        saved = self.source.saved
        if self._revision != saved.revision:
            rows = self.source.rows(self.name)
            columns = ("step", "mode", "rank")
            found = set(zip(*(rows[column].tolist() for column in columns), strict=True))
            if self.name in saved.valued:
                where = f"name = {literal(self.name)} AND position = 0"
                values = self.source.table("tensor_values", columns, where)
                found |= set(zip(*(values[column].tolist() for column in columns), strict=True))
            found |= {w for w in saved.raw_writings(self.name) if self.source.within(w[0])}
            self._by_step = {}
            for writing in sorted(found):
                self._by_step.setdefault(writing[0], []).append(writing)
            self._revision = saved.revision
        return [writing for writings in self._by_step.values() for writing in writings]

    def _at(self, step: int, mode: str | None) -> list[Writing]:
        self._writings()
        writings = self._by_step.get(step, [])
        for wanted in _MODES if mode is None else [mode]:
            found = [w for w in writings if w[1] == wanted]
            if found:
                return found
        state = self.source.state(step, mode)
        there = self.steps(mode, incomplete=True)
        if state is StepState.AVAILABLE and self.source.awaited(self.name, step):
            raise StepNotYetAvailable(step, mode, "rows of the tensor may still be on their way")
        if state is StepState.AVAILABLE:
            hint = f"it was saved at steps {some(there)}"
            raise TensorUnavailableForStep(self.name, step, mode, hint=hint)
        if state is StepState.UNAVAILABLE:
            raise StepUnavailable(step, mode, self.source.neighbors(step, there))
        raise StepNotYetAvailable(step, mode)

    def _writing(self, step: int, mode: str | None, rank: Rank) -> Writing:
        found = self._at(step, mode)
        if rank is None:
            return found[0]
        for writing in found:
            if writing[2] == rank:
                return writing
        raise InvalidWorker(rank, [writing[2] for writing in found])

    def _stored(self, *writings: Writing) -> Table:
        return last_of(self.source.rows(self.name), writings)

    def _asked(self, kind: str) -> Table:
        where = f"name = {literal(self.name)} AND kind = {literal(kind)}"
        return self.source.table("tensor_values", ("step", "mode", "rank", "value"), where)

    def _small(self, writing: Writing) -> NDArray[Any] | None:
        """Return the elements of a small tensor, which are kept as rows."""
        elements = self.source.elements(self.name, writing, "value")
        if not elements.size:
            return None
        shape = tuple(int(size) for size in self.source.elements(self.name, writing, "shape"))
        return elements.reshape(shape) if np.prod(shape, dtype=np.int64) == elements.size else elements


def _reading(read: Callable[[], T]) -> T:
    try:
        return read()
    except DamagedRaw as damage:
        raise IndexReaderException(str(damage), damage.file, damage.offset) from damage
