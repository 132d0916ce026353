"""Import files and folders of traces into one job: choose the reader, find the ranks, write the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holter.importers import chrome_json
from holter.importers.report import Report, UnreadableError
from holter.importers.trace import Trace
from holter.store import job
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holter.store.job import JobFolder

NODE = "import"
ROWS_A_FILE = 491_520
"""Rows of a file of the store: four row groups. Many small files would be larger together."""
MOST_FILES = 100_000


class Importer(Protocol):
    """A module of the shelf: it knows one format."""

    FORMAT: str

    def recognizes(self, path: Path) -> bool:
        """Tell whether a file may be of this format, by its name and its first bytes."""

    def read(self, path: Path, trace: Trace) -> None:
        """Read a file into a trace; raises `UnreadableError` or `OSError`."""


SHELF: tuple[Importer, ...] = (chrome_json,)


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
    # Nobody waits for the first rows: only full files are written, whatever their age.
    writer = Writer(folder, NODE, max_rows=ROWS_A_FILE, max_waiting_rows=4 * ROWS_A_FILE, clock=lambda: 0.0)
    taken: set[int] = set()
    for path, importer in _files(paths, report):
        _import(Trace(path, report, on_progress), importer, writer, report, taken)
    if not writer.close():
        raise OSError(f"the store cannot be written: {writer.fault}")
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


def _import(trace: Trace, importer: Importer, writer: Writer, report: Report, taken: set[int]) -> None:
    label = str(trace.path)
    try:
        importer.read(trace.path, trace)
        told = trace.rank if trace.rank is not None else trace.rank_by_name()
        rank = told if told is not None else next(n for n in range(len(taken) + 1) if n not in taken)
        taken.add(rank)
        trace.write(writer, rank, report)
    except (UnreadableError, OSError) as error:
        report.skip(label, str(error))
        return
    finally:
        trace.staging.close()
        for why, times in trace.skipped.items():
            report.skip(label, why, times)
    report.files[label] = importer.FORMAT
    report.ranks[label] = rank
    report.events += trace.events
    report.notes[label] = trace.notes
    report.facts[label] = trace.facts


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
