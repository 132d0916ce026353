"""Reads `tensors.json`, which describes the tensor collections of a job."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.store.job import JobFolder

TENSORS = "tensors.json"


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A named set of tensors: what it selects, when and in which form it was to be saved."""

    name: str
    include_regex: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    schedule: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Mode → `interval`, `start`, `end`, `steps`."""
    statistics: tuple[str, ...] = ()
    histogram: bool = False
    raw: bool = False
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredCollections:
    """The whole document; empty when the job has no collections."""

    there: bool = False
    collections: Mapping[str, StoredCollection] = field(default_factory=dict)
    modes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    """Ranks that save."""
    mode_steps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Mode → its own count of a step → the global step, for jobs whose modes count apart."""


def read_told(folder: JobFolder) -> StoredCollections:
    """Read the document without its unreadable parts."""
    try:
        document = json.loads(folder.place.read(TENSORS))
    except (OSError, ValueError, RecursionError):
        return StoredCollections()
    if not isinstance(document, dict):
        return StoredCollections()
    collections = document.get("collections")
    steps = document.get("mode_steps")
    return StoredCollections(
        True,
        {n: _collection(n, c) for n, c in _items(collections) if isinstance(c, dict)},
        _texts(document.get("modes")),
        tuple(r for r in _list(document.get("ranks")) if type(r) is int),
        {mode: dict(_pairs(pairs)) for mode, pairs in _items(steps)},
    )


def _collection(name: str, told: dict[str, Any]) -> StoredCollection:
    return StoredCollection(
        name,
        _texts(told.get("include_regex")),
        _texts(told.get("roles")),
        {mode: s for mode, s in _items(told.get("schedule")) if isinstance(s, dict)},
        _texts(told.get("statistics")),
        told.get("histogram") is True,
        told.get("raw") is True,
        _texts(told.get("tensors")),
    )


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(text for text in _list(value) if isinstance(text, str))


def _pairs(value: Any) -> list[tuple[int, int]]:
    return [
        (p[0], p[1])
        for p in _list(value)
        if isinstance(p, list) and len(p) == 2 and all(type(n) is int for n in p)
    ]
