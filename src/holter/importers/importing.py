"""Import files and folders of traces into one job: choose the reader, find the ranks, write the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holter.importers import chrome_json, nsight, sagemaker, xplane
from holter.importers.report import Report, UnreadableError
from holter.importers.trace import Trace
from holter.store import job
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holter.store.job import JobFolder

ROWS_A_FILE = 245_760
"""Rows of a file of the store: two row groups. Many small files would be larger together."""
MOST_FILES = 100_000


class Importer(Protocol):
    """A module of the shelf: it knows one format."""

    FORMAT: str

    def recognizes(self, path: Path) -> bool:
        """Tell whether a file may be of this format, by its name and its first bytes."""

    def read(self, path: Path, trace: Trace) -> None:
        """Read a file into a trace; raises `UnreadableError` or `OSError`."""


SHELF: tuple[Importer, ...] = (sagemaker, xplane, nsight, chrome_json)
"""In the order in which they are asked: those that know a file by its name and place first."""


def import_paths(
    paths: Sequence[Path], folder: JobFolder, *, on_progress: Callable[[str, int, int], None] | None = None
) -> Report:
    """Import traces into a job. A file that cannot be read costs only itself, and is told in the report.

    Memory is bounded whatever the size of the files; while one is read, its rows lie on the temporary disk.

    Args:
        paths: Files, and folders whose files of known formats are all imported: one a rank, or any others.
        folder: The job. Its manifest is not touched.
        on_progress: Called with a file, the bytes read of it and its size, now and then.

    Returns:
        What was written, and what was not.

    Raises:
        UnreadableError: Nothing could be read of any file; the text says of each why.
        OSError: The store or the temporary disk cannot be written.
    """
    report = Report()
    job_ = _Job(folder, report)
    for path, importer in _files(paths, report):
        job_.take(Trace(path, report, on_progress), importer)
    job_.close()
    if not report.files:
        told = "; ".join(f"{file}: {why}" for file, all_ in report.skipped.items() for why in all_)
        raise UnreadableError(told or "no file of a known format is there")
    return report


def import_job(
    paths: Sequence[Path],
    store: str,
    name: str,
    *,
    now_ns: int,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[JobFolder, Report]:
    """Import traces into a new job of a store, which ends when the last of them does.

    Raises:
        UnreadableError: Nothing could be read; then there is no job either.
        BadJobName, JobExists, StoreNotWritable: The job cannot be made.
        OSError: The store or the temporary disk cannot be written.
    """
    command = ["holter", "import", *map(str, paths)]
    folder = job.create(store, name, command=command, interval_ms=500, rules=[], now_ns=now_ns)
    try:
        report = import_paths(paths, folder, on_progress=on_progress)
    except BaseException:
        folder.place.destroy()
        raise
    facts = {file: known for file, known in report.facts.items() if known}
    folder.update(
        start=now_ns if report.start_ns is None else report.start_ns,
        end=now_ns if report.end_ns is None else report.end_ns,
        status="Completed",
        imported={"files": report.files, "ranks": report.ranks, "facts": facts},
    )
    return folder, report


class _Job:
    """Writes traces into a job, each under its rank and its node."""

    def __init__(self, folder: JobFolder, report: Report) -> None:
        self._folder = folder
        self._report = report
        self._writers: dict[str, Writer] = {}
        self._taken: set[int] = set()
        self._owners: dict[str, int] = {}
        self._cpus: dict[str, int] = {}

    def take(self, trace: Trace, importer: Importer) -> None:
        """Read one file and write its rows; what goes wrong is told in the report."""
        label, report = str(trace.path), self._report
        try:
            importer.read(trace.path, trace)
            rank = self._rank(trace)
            trace.write(self._writer(trace.node), rank, report)
            if trace.cpus > self._cpus.get(trace.node, 0):
                self._cpus[trace.node] = trace.cpus
        except (UnreadableError, OSError) as error:
            report.skip(label, str(error))
            return
        finally:
            trace.staging.close()
            for why, times in trace.skipped.items():
                report.skip(label, why, times)
        report.files[label] = importer.FORMAT
        if rank >= 0:
            report.ranks[label] = rank
        report.events += trace.events
        report.notes[label] = trace.notes
        report.facts[label] = trace.facts

    def _rank(self, trace: Trace) -> int:
        """Return the rank that the file, its name, its writer's other files, or else its place tells."""
        told = trace.rank if trace.rank is not None else trace.rank_by_name()
        if told is None:
            told = self._owners.get(trace.owner) if trace.owner else None
        if told is None:
            told = next(n for n in range(len(self._taken) + 1) if n not in self._taken)
        if trace.owner:
            self._owners.setdefault(trace.owner, told)
        self._taken.add(told)
        return told

    def _writer(self, node: str) -> Writer:
        if node not in self._writers:
            # Nobody waits for the first rows: only full files are written, whatever their age.
            self._writers[node] = Writer(
                self._folder,
                node,
                max_rows=ROWS_A_FILE,
                max_waiting_rows=4 * ROWS_A_FILE,
                clock=lambda: 0.0,
            )
        return self._writers[node]

    def close(self) -> None:
        """Write all that waits; raises `OSError` when the store cannot take it."""
        for writer in self._writers.values():
            if not writer.close():
                raise OSError(f"the store cannot be written: {writer.fault}")
        for node, cpus in self._cpus.items():
            self._folder.write_node(node, {"node": node, "cpus": cpus})


def _files(paths: Sequence[Path], report: Report) -> list[tuple[Path, Importer]]:
    found: list[tuple[Path, Importer]] = []
    for path in paths:
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in inside[:MOST_FILES]:
            try:
                importer = next((one for one in SHELF if one.recognizes(file)), None)
            except OSError as error:
                report.skip(str(file), str(error))
                continue
            if importer is not None:
                found.append((file, importer))
            elif file == path:
                report.skip(str(file), "its format is none that is known")
    return found
