"""Some of a job's tensors, chosen by pattern, collection or role: what `job.tensors(...)` returns."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.frame import Rows
from holter.store.parquet.queries import literal
from holter.tensors.completeness import StepState
from holter.tensors.errors import (
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
    near,
    some,
)
from holter.tensors.history import check_reductions, history_of
from holter.tensors.tensor import Rank, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.store.tensors_json import StoredCollection
    from holter.tensors.source import Source

_MANY = 400
"""More names than this are chosen among rows that were read, not in the query."""


class Tensors:
    """Tensors of one job. Live: of a running job, each question sees what was saved by then."""

    def __init__(
        self, source: Source, *patterns: str, collection: str | None = None, role: str | None = None
    ) -> None:
        """Choose tensors: those that fit all that is given.

        Args:
            source: The job's tensors.
            patterns: Regular expressions, one of which must be found somewhere in the name.
            collection: Only members of this collection.
            role: Only tensors with this role, as `weight`, or `act_out` for `act_out:relu` too.

        Raises:
            ValueError: A pattern is invalid, or the collection does not exist; the text names near ones.
        """
        self.source = source
        self._said = f"{', '.join(map(repr, patterns)) or 'any'}"
        self._said += f" of collection {collection!r}" * bool(collection) + f" of role {role!r}" * bool(role)
        self._patterns = [pattern_of(pattern) for pattern in patterns]
        self._role = role
        self._collection = collection
        if collection is not None:
            source.refresh_names()
            collection_of(source, collection)
        self._tensors: dict[str, Tensor] = {}

    @property
    def names(self) -> list[str]:
        """Names of the tensors, in order. When none fits, a warning says which name is near."""
        every = self.source.names
        found = [name for name in every if self._fits(name)]
        if every and not found:
            asked = "|".join(pattern.pattern for pattern in self._patterns)
            warnings.warn(
                f"no tensor fits {self._said}{near(asked, every)}; {len(every)} were saved", stacklevel=2
            )
        return found

    def _fits(self, name: str) -> bool:
        if self._patterns and not any(pattern.search(name) for pattern in self._patterns):
            return False
        roles = self.source.saved.roles.get(name, set())
        if self._role is not None and not _has_role(roles, self._role):
            return False
        if self._collection is None:
            return True
        return is_member(collection_of(self.source, self._collection), name, roles)

    def __getitem__(self, name: str) -> Tensor:
        """Return one tensor; raises `TensorUnavailable` (a `LookupError`) if it is not selected."""
        if name not in self._tensors:
            # Its rows, which are wanted next, tell sooner than a list of all names.
            known = self._everything and self.source.rows(name).rows
            if not known and name not in (names := self.names):
                raise TensorUnavailable(name, names)
            self._tensors[name] = Tensor(self.source, name)
        return self._tensors[name]

    def __iter__(self) -> Iterator[Tensor]:
        return iter([Tensor(self.source, name) for name in self.names])

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    @property
    def modes(self) -> list[str]:
        """Modes in which any tensor of the job was saved."""
        self.source.refresh()
        return self.source.completeness.modes

    @property
    def ranks(self) -> list[int]:
        """Ranks that save tensors."""
        self.source.refresh()
        seen = set().union(*self.source.saved.ranks.values()) if self.source.saved.ranks else set()
        return sorted(seen | set(self.source.told.ranks))

    @property
    def collections(self) -> dict[str, StoredCollection]:
        """The job's collections by name, those that were not saved too."""
        self.source.refresh_names()
        return dict(self.source.told.collections)

    def steps(self, mode: str | None = None, *, incomplete: bool = False) -> list[int]:
        """Return the steps at which any of these tensors was saved: the complete ones, or all."""
        if self._everything:
            self.source.refresh()
            return self.source.completeness.steps(mode, incomplete=incomplete)
        found: set[int] = set()
        for tensor in self:
            found.update(tensor.steps(mode, incomplete=incomplete))
        return sorted(found)

    def prev_steps(self, step: int, n: int | None = None, mode: str | None = None) -> list[int]:
        """Return the last `n` steps up to and with `step`; all when `n` is None or 0."""
        before = [s for s in self.steps(mode) if s <= step]
        return before[-n:] if n else before

    def has_passed_step(self, step: int, mode: str | None = None) -> StepState:
        """Tell whether a step of the job is there, will never be, or may still come."""
        return self.source.state(step, mode)

    def wait_for_steps(
        self, steps: Sequence[int], mode: str | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Wait until steps of the job are complete; see `Source.wait` for what it raises."""
        self.source.wait(steps, mode, timeout_s=timeout_s)

    def at(self, step: int, mode: str | None = None) -> Rows:
        """Return the stored statistics of these tensors at one step, by name and rank.

        Raises:
            StepUnavailable: Nothing was saved then, nor will be.
            StepNotYetAvailable: It may still come.
            TensorUnavailableForStep: Other tensors were saved then, but none of these.
        """
        rows = self._table(f"step = {int(step)}", mode)
        if not rows.rows:
            state = self.source.state(step, mode)
            if state is StepState.AVAILABLE and not self.source.awaited(None, step):
                steps = self.steps(mode, incomplete=True)
                raise TensorUnavailableForStep(self._said, step, mode, hint=f"saved at steps {some(steps)}")
            if state is StepState.UNAVAILABLE:
                there = self.source.completeness.steps(mode, incomplete=True)
                raise StepUnavailable(step, mode, self.source.neighbors(step, there))
            raise StepNotYetAvailable(step, mode)
        return Rows(rows)

    def value(self, step: int, mode: str | None = None, rank: int | None = None) -> dict[str, NDArray[Any]]:
        """Return the elements of each of these tensors that were saved at a step, by name."""
        found = {}
        for tensor in self:
            if step in tensor.steps(mode, incomplete=True):
                found[tensor.name] = tensor.value(step, mode, rank)
        return found

    def values(self, mode: str | None = None, rank: int | None = None) -> dict[str, dict[int, NDArray[Any]]]:
        """Return the elements of each of these tensors at every complete step, by name and step."""
        return {tensor.name: tensor.values(mode, rank) for tensor in self}

    def reduction(self, *names: str, mode: str | None = None, rank: Rank = None) -> Rows:
        """Return reductions at every step as a table: name, step, mode, rank, and one column for each.

        Args:
            names: Reductions, as `l2` and `abs_max`; all when none is given.
            mode: Only this mode.
            rank: Only this rank; `"all"` combines the parts that the ranks hold, None leaves each rank a row.
        """
        check_reductions(names)
        condition = f"rank = {rank}" if isinstance(rank, int) else None
        return history_of(self._table(condition, mode), names, combine=rank == "all")

    @property
    def table(self) -> Table:
        """All stored statistics of these tensors, by name, step and rank."""
        return self._table(None, None)

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """Yield all stored statistics as plain Python values."""
        return Rows(self.table).to_rows()

    def to_pandas(self) -> Any:
        """Return all stored statistics as a pandas DataFrame."""
        return Rows(self.table).to_pandas()

    def to_arrow(self) -> Any:
        """Return all stored statistics as a pyarrow Table."""
        return Rows(self.table).to_arrow()

    def to_polars(self) -> Any:
        """Return all stored statistics as a Polars DataFrame."""
        return Rows(self.table).to_polars()

    def __repr__(self) -> str:
        return f"Tensors({self._said}: {some(self.names)})"

    def _repr_html_(self) -> str:
        return Rows(self.table)._repr_html_()

    @property
    def _everything(self) -> bool:
        return not self._patterns and self._collection is None and self._role is None

    def _table(self, condition: str | None, mode: str | None) -> Table:
        conditions = [condition] if condition else []
        if mode is not None:
            conditions.append(f"mode = {literal(mode)}")
        names: list[str] = []
        if not self._everything:
            names = self.names
            if len(names) <= _MANY:
                conditions.append(f"name IN ({', '.join(map(literal, names)) or 'NULL'})")
        rows = self.source.table("tensors", where=" AND ".join(conditions) or None)
        if len(names) > _MANY:
            chosen = set(names)
            rows = rows.where(np.array([name in chosen for name in rows["name"]], dtype=bool))
        return rows.sorted("name", "step", "mode", "rank")


def collection_of(source: Source, name: str) -> StoredCollection:
    """Return a collection; raises `ValueError` with the nearest name when it does not exist."""
    known = source.told.collections
    if name not in known:
        raise ValueError(
            f"no collection {name!r}{near(name, known)}; there are: {', '.join(known) or 'none'}"
        )
    return known[name]


def is_member(collection: StoredCollection, name: str, roles: set[str]) -> bool:
    """Tell whether a tensor belongs to a collection: by name, by pattern or by role."""
    if name in collection.tensors or any(_has_role(roles, role) for role in collection.roles):
        return True
    return any(pattern_of(pattern).search(name) for pattern in collection.include_regex)


def pattern_of(text: str) -> re.Pattern[str]:
    """Compile a pattern; raises `ValueError` that says what is wrong with it."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error


def _has_role(roles: set[str], wanted: str) -> bool:
    return any(role == wanted or role.startswith(wanted + ":") for role in roles)
