"""The charts of a comparison: what each job has for them is read once while it does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holter.dashboard.answers import MOST_STORES, RefusalError, whole
from holter.pages.data.encoding import encoded
from holter.views.comparison.overlays import curves, overlay

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.dashboard.stores import Stores
    from holter.store.job import JobFolder
    from holter.views.figures import Figure, Reading


class Place(NamedTuple):
    """Where a job is, and its folder."""

    store: int
    folder: JobFolder


def places(stores: Stores, chosen: Sequence[str]) -> list[Place]:
    """Return the jobs that an address names as `store/job`, the oldest first: it is the baseline.

    Raises:
        RefusalError: They are fewer than two.
        LookupError: One is not there.
    """
    if len(chosen) < 2:
        raise RefusalError("select two or more jobs in the list to compare them")
    named = [text.partition("/") for text in chosen]
    found = [
        Place(number, stores.folder(name, number))
        for number, name in (
            (whole({"job": store}, "job", 0, MOST_STORES - 1), name) for store, _, name in named
        )
    ]
    return sorted(found, key=lambda one: one.folder.manifest().get("created") or 0)


def overlaid(
    stores: Stores, of: Sequence[Place], names: Iterable[str], width: int
) -> dict[str, Figure | None]:
    """Return charts by name; None for one that no job has anything for. Raises `KeyError`: no such chart."""

    def made(reading: Reading) -> bytes:
        return encoded(curves(reading.at(None, width)))

    told: dict[str, Any] = {}
    for store, folder in of:
        name = folder.name if folder.name not in told else f"{folder.name} ({store})"
        told[name] = msgspec.json.decode(stores.kept(folder.name, store, f"curves {width}", made))
    return {name: overlay(name, told, width) for name in names}
