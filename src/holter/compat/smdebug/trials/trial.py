"""smdebug's `Trial`, over a job that holter recorded."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.compat.smdebug.core.modes import ModeKeys, StepState
from holter.compat.smdebug.core.tensor import Tensor, own_steps, worker
from holter.compat.smdebug.exceptions import (
    TensorUnavailable,
)
from holter.store.parquet.queries import literal
from holter.tensors import Source, Tensors
from holter.tensors.completeness import WINDOW
from holter.tensors.errors import near
from holter.tensors.selection import is_member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from holter.store.job import JobFolder


@dataclass(frozen=True)
class Collection:
    """A named set of tensors, as it was configured and as far as it was saved."""

    name: str
    include_regex: tuple[str, ...]
    tensor_names: frozenset[str]


class Trial:
    """The tensors of one job, as smdebug shows them."""

    def __init__(
        self,
        folder: JobFolder,
        name: str | None = None,
        range_steps: tuple[int | None, int | None] | None = None,
    ) -> None:
        self.path = folder.url
        self.name = name or folder.name
        self.range_steps = range_steps
        window = os.environ.get("SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW", "")
        self.source = self._opened(folder, range_steps, int(window) if window.isdecimal() else WINDOW)
        self._tensors: dict[str, Tensor] = {}
        self.source.refresh()

    def _opened(self, folder: JobFolder, steps: tuple[int | None, int | None] | None, window: int) -> Source:
        return Source(folder, steps=steps, window=window)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and (self.name, self.path) == (other.name, other.path)

    def __hash__(self) -> int:
        return hash((self.name, self.path))

    def __repr__(self) -> str:
        steps, names = self.steps(), self.tensor_names()
        return (
            f"Trial(name={self.name!r}, path={self.path!r}, steps={steps}, "
            f"collections={list(self.collections())}, tensor_names={names})"
        )

    @property
    def num_workers(self) -> int:
        """How many ranks save tensors."""
        return len(self.workers())

    @property
    def loaded_all_steps(self) -> bool:
        """Whether the job has ended and all of it was seen."""
        return self.source.completeness.loaded

    @property
    def last_complete_step(self) -> int:
        """The last global step that every worker has saved, or that was given up; -1 at first."""
        return self.source.completeness.last_complete_step

    @property
    def dynamic_refresh(self) -> bool:
        """Whether questions look at what is new."""
        return self.source.refreshing

    def refresh_data(self) -> None:
        """Look at what is new."""
        self.source.refresh()

    def maybe_refresh(self, name: str | None = None) -> None:
        """Look at what is new, unless within `no_refresh`."""
        self.source.refresh()

    def tensor_names(
        self,
        show_prefixed_tensors: bool = False,
        *,
        step: int | None = None,
        mode: ModeKeys = ModeKeys.GLOBAL,
        regex: str | Sequence[Any] | None = None,
        collection: str | Collection | None = None,
    ) -> list[str]:
        """Return names of tensors, in order: those that fit all that is given.

        Raises:
            ValueError: Both `regex` and `collection` are given, or the collection is unknown.
            TypeError: The collection is neither a name nor a collection.
        """
        if regex is not None and collection is not None:
            raise ValueError("give a regex or a collection, not both")
        if not isinstance(collection, str | Collection | None):
            raise TypeError(f"collection is a {type(collection).__name__}; expected its name or itself")
        names = set(self._saved(step, mode))
        if regex is not None:
            patterns = [re.compile(pattern) for pattern in _flat(regex)]
            names = {name for name in names if any(p.search(name) for p in patterns)}
        if collection is not None:
            wanted = self.collection(collection) if isinstance(collection, str) else collection
            names &= wanted.tensor_names
        if not names:
            warnings.warn(f"no tensor of trial {self.name!r} fits", stacklevel=2)
        return sorted(names)

    def _saved(self, step: int | None, mode: ModeKeys) -> Iterable[str]:
        """Return the names of what was saved at a step, in a mode, or at all."""
        if step is None and mode is ModeKeys.GLOBAL:
            return self.source.names
        self.source.refresh()
        conditions = [] if mode.label is None else [f"mode = {literal(mode.label)}"]
        if step is not None:
            global_step = self.global_step(mode, step)
            if global_step is None:
                return []
            conditions.append(f"step = {global_step}")
            return self.source.names_at(" AND ".join(conditions), global_step, mode.label)
        return self.source.names_at(" AND ".join(conditions), None, mode.label)

    def has_tensor(self, name: str) -> bool:
        """Tell whether a tensor was saved so far."""
        return name in self._tensors or name in self.source.names

    def tensor(self, name: str) -> Tensor:
        """Return a tensor; raises `TensorUnavailable` when none of this name was saved so far."""
        if name not in self._tensors:
            names = self.source.names
            if name not in names:
                raise TensorUnavailable(name, names)
            self._tensors[name] = Tensor(self, self.source, name)
        return self._tensors[name]

    def steps(self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps at which anything was saved: complete ones, or all."""
        self.source.refresh()
        there = self.source.completeness.steps(mode.label, incomplete=show_incomplete_steps)
        return own_steps(self.source, there, mode)

    def modes(self) -> list[ModeKeys]:
        """Return the modes in which anything was saved, without GLOBAL."""
        self.source.refresh()
        return [ModeKeys.of(label) for label in self.source.completeness.modes if label != "global"]

    def mode(self, global_step: int) -> ModeKeys | None:
        """Return the mode of a global step; None when nothing was saved then."""
        self.source.refresh()
        found = {mode for step, mode in self.source.saved.ranks if step == global_step}
        return next((mode for mode in ModeKeys if mode.name.lower() in found), None)

    def mode_step(self, global_step: int) -> int | None:
        """Return a global step as its mode counts it; None when nothing was saved then."""
        mode = self.mode(global_step)
        return None if mode is None else next(iter(own_steps(self.source, [global_step], mode)), None)

    def mode_modestep(self, global_step: int) -> tuple[ModeKeys | None, int | None]:
        """Return the mode of a global step, and the step as the mode counts it."""
        return self.mode(global_step), self.mode_step(global_step)

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the global step of a mode's own step; None when it is not known."""
        counted = self.source.counted(mode.label)
        return mode_step if counted is None else counted.get(mode_step)

    def workers(self) -> list[str]:
        """Return the names of all workers that save tensors."""
        return sorted(map(worker, Tensors(self.source).ranks))

    def collections(self) -> dict[str, Collection]:
        """Return the collections by name, those that were not saved too."""
        names = self.source.names
        roles = self.source.saved.roles
        return {
            key: Collection(
                key,
                told.include_regex,
                frozenset(told.tensors) | {n for n in names if is_member(told, n, roles.get(n, set()))},
            )
            for key, told in self.source.told.collections.items()
        }

    def collection(self, name: str) -> Collection:
        """Return a collection; raises `ValueError` for an unknown one, where smdebug makes one."""
        known = self.collections()
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"no collection {name!r}{near(name, known)}; there are: {listed}")
        return known[name]

    def wait_for_steps(self, required_steps: Sequence[int], mode: ModeKeys = ModeKeys.GLOBAL) -> None:
        """Wait until steps are complete; raises `StepUnavailable` or `NoMoreData` when one never will be."""
        self.source.wait(required_steps, mode.label, own=True)

    def has_passed_step(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> StepState:
        """Tell whether a step is there, will never be, or may still come."""
        return self.source.state(step, mode.label, own=True)

    def inputs(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[NDArray[Any]]:
        """Return the model's inputs at a step."""
        return self._named("input", step, mode)

    def labels(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[NDArray[Any]]:
        """Return the labels at a step."""
        return self._named("label", step, mode)

    def predictions(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[NDArray[Any]]:
        """Return the model's predictions at a step."""
        return self._named("prediction", step, mode)

    def _named(self, word: str, step: int, mode: ModeKeys) -> list[NDArray[Any]]:
        pattern = re.compile(rf"{word}s?(?:_(\d+))?")
        found = {name: match for name in self._saved(step, mode) if (match := pattern.fullmatch(name))}
        ordered = sorted(found, key=lambda name: int(found[name][1] or 0))
        return [self.tensor(name).value(step, mode) for name in ordered]


def _flat(regex: str | Sequence[Any]) -> Iterator[str]:
    if isinstance(regex, str):
        yield regex
        return
    for each in regex:
        yield from _flat(each)
