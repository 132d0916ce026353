"""Finds earlier jobs of the same command in the store, with their loader workers and their step times."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from holter.analysis.verdict.job_facts import MeasuredRun
from holter.store.job import JobFolder
from holter.store.layout import JOB_NAME, MANIFEST
from holter.store.place import LocalPlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holter.store.documents import Document

MOST = 50
"""Jobs of the store that are looked at, the newest first."""


def measured_runs(folder: JobFolder) -> tuple[MeasuredRun, ...]:
    """Return the earlier jobs of the same command, the newest first; none in an object store.

    Arguments that name workers may differ: advice on workers changes them. Jobs of other machines do not
    count.
    """
    if not isinstance(folder.place, LocalPlace):
        return ()  # each look at a job is a request there
    manifest = folder.manifest()
    created, hosts = manifest.get("created"), _hosts(folder)
    if not isinstance(created, int):
        return ()
    wanted = _without_workers(manifest.get("command") or ())
    found = []
    for other in islice(_newest(folder.place), MOST):
        known = other.manifest()
        run = _run(other.name, known)
        if run is None or other.name == folder.name or not (known.get("created") or created) < created:
            continue
        if _without_workers(known.get("command") or ()) == wanted and _hosts(other) == hosts:
            found.append(run)
    return tuple(found)


def _newest(place: LocalPlace) -> Iterator[JobFolder]:
    """Yield the jobs of a job's store, the one that changed last first."""
    try:
        manifests = [(one.stat().st_mtime_ns, one.parent) for one in place.path.parent.glob(f"*/{MANIFEST}")]
    except OSError:
        return
    for _, path in sorted(manifests, reverse=True):
        if JOB_NAME.fullmatch(path.name):
            yield JobFolder(LocalPlace(path), path.name)


def _run(name: str, manifest: Document) -> MeasuredRun | None:
    verdict = manifest.get("verdict")
    if manifest.get("status") != "Completed" or not isinstance(verdict, dict):
        return None
    workers, step_ms = verdict.get("workers"), verdict.get("step_ms")
    if not isinstance(workers, int) or not isinstance(step_ms, int | float):
        return None
    return MeasuredRun(name, workers, float(step_ms))


def _hosts(folder: JobFolder) -> list[object]:
    return sorted(str(facts.get("host")) for facts in folder.nodes().values())


def _without_workers(command: Sequence[object]) -> list[str]:
    """Return a command without the arguments that name workers, and their values."""
    kept: list[str] = []
    skips = False
    for word in map(str, command):
        if skips and word.isdecimal():
            skips = False
            continue
        skips = "worker" in word.lower()
        if not skips:
            kept.append(word)
    return kept
