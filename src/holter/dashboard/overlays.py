"""Charts of several jobs on the same axes; the curves of each job are cached."""

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
    from holter.views.figure import Figure
    from holter.views.reading import Reading


class ServedJob(NamedTuple):
    """A job and the number of its store."""

    store: int
    folder: JobFolder


def places(stores: Stores, chosen: Sequence[str], baseline: str = "") -> list[ServedJob]:
    """Return the jobs that an address names as `store/job`, or as `job` in the first store.

    The first one is the baseline: the job that `baseline` names, by default the oldest.

    Raises:
        RefusalError: Fewer than two jobs are named, or the baseline is none of them.
        LookupError: A job does not exist.
    """
    if len(chosen) < 2:
        raise RefusalError("select two or more jobs in the list to compare them")
    named = [_named(text) for text in chosen]
    first = _named(baseline) if baseline else None
    if first is not None and first not in named:
        raise RefusalError(f"the baseline {baseline[:80]!r} is none of the compared jobs")
    found = [ServedJob(number, stores.folder(name, number)) for number, name in named]

    def order(one: ServedJob) -> tuple[bool, int]:
        return (one.store, one.folder.name) != first, one.folder.manifest().get("created") or 0

    return sorted(found, key=order)


def _named(text: str) -> tuple[int, str]:
    """Return the number of the store and the name of a job."""
    store, slash, name = text.partition("/")
    return (whole({"job": store}, "job", 0, MOST_STORES - 1), name) if slash else (0, text)


def overlaid(
    stores: Stores, of: Sequence[ServedJob], names: Iterable[str], width: int
) -> dict[str, Figure | None]:
    """Return charts by name, None for a chart without data; raises `KeyError` for an unknown name."""

    def made(reading: Reading) -> bytes:
        return encoded(curves(reading.at(None, width)))

    by_job: dict[str, Any] = {}
    for store, folder in of:
        name = folder.name if folder.name not in by_job else f"{folder.name} ({store})"
        by_job[name] = msgspec.json.decode(stores.kept(folder.name, store, f"curves {width}", made))
    return {name: overlay(name, by_job, width) for name in names}
