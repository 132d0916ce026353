"""Reads `tensors.json`, which describes the tensor collections of a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from holter.store.job import JobFolder

TENSORS = "tensors.json"
T = TypeVar("T")


class StoredCollection(msgspec.Struct, frozen=True):
    """A named set of tensors: what it selects, and when and in which form the recorder saves it."""

    name: str = ""
    include_regex: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    schedule: dict[str, dict[str, object]] = {}
    """Mode → `interval`, `start`, `end`, `steps`."""
    statistics: tuple[str, ...] = ()
    histogram: bool = False
    raw: bool = False
    tensors: tuple[str, ...] = ()


class StoredCollections(msgspec.Struct, frozen=True):
    """The whole document; empty when the job has no collections."""

    collections: dict[str, StoredCollection] = {}
    modes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    """Ranks that save."""
    mode_steps: dict[str, dict[int, int]] = {}
    """Mode → its own count of a step → the global step, for jobs whose modes count apart."""


def read_told(folder: JobFolder) -> StoredCollections:
    """Read the document without its unreadable parts."""
    try:
        document = _converted(json.loads(folder.place.read(TENSORS)), dict[str, object], {})
    except (OSError, ValueError, RecursionError):
        return StoredCollections()
    collections = {
        name: msgspec.structs.replace(collection, name=name)
        for name, entry in _converted(document.get("collections"), dict[str, object], {}).items()
        if (collection := _converted(entry, StoredCollection, None)) is not None
    }
    pairs = _converted(document.get("mode_steps"), dict[str, list[tuple[int, int]]], {})
    return StoredCollections(
        collections,
        _converted(document.get("modes"), tuple[str, ...], ()),
        _converted(document.get("ranks"), tuple[int, ...], ()),
        {mode: dict(steps) for mode, steps in pairs.items()},
    )


def _converted(value: object, kind: type[T], default: T) -> T:
    """Return a value of a type; the default for a value that does not fit it."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError, RecursionError):
        return default
