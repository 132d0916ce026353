"""Import files and folders of traces into one job: choose the reader, find the ranks, write the tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holter.importers.executors import LostTaskError
from holter.importers.reading import traces
from holter.importers.report import Report, UnreadableError
from holter.importers.sagemaker.smdebug_folder import PARTS, folders
from holter.importers.sagemaker.smdebug_tensors import MissingCollectionsError, TensorFolder
from holter.store import job
from holter.store.compact import MIN_FILES, compact
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.importers.files import Importer
    from holter.importers.trace import Trace
    from holter.store.job import JobFolder

TENSORS_FORMAT = "smdebug"
ROWS_A_FILE = 245_760
"""Rows of a file of the store: two row groups. Many small files would be larger together."""


def import_paths(
    paths: Sequence[Path],
    folder: JobFolder,
    *,
    on: str | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Import traces into a job. A file that cannot be read costs only itself, and the report names it.

    Memory is bounded whatever the size of the files; while one is read, its rows lie on the temporary disk.

    Args:
        paths: Files, and folders and archives whose files of known formats are all imported: one a rank, or
            any others; and folders of smdebug's tensors.
        folder: The job. Its manifest is not touched.
        on: Where files are read, as `executors.executor` takes it; None for this process, or processes of
            this machine for several files that are large. Rows are always written by this process.
        on_progress: Called with a file, the bytes read of it and its size, now and then.

    Returns:
        What was written, and what was not.

    Raises:
        UnreadableError: Nothing could be read of any file; the text says of each why.
        OSError: The store or the temporary disk cannot be written.
        UnknownExecutorError: `on` is not valid.
    """
    report = Report()
    job_ = _Job(folder, report)
    saved = [one for path in paths if path.is_dir() for one in folders(path)]
    for one in saved:
        _take_tensors(one, folder, report)
    without = {one / part for one in saved for part in PARTS}
    with tempfile.TemporaryDirectory(prefix="holter-import-") as room:
        for found, trace, error in traces(paths, report, Path(room), without, on, on_progress):
            job_.take(trace, found.label, found.importer, error)
    job_.close()
    # Names of threads alone say nothing: of such a file not one event could be read.
    empty = report.skipped and not any(count for table, count in report.rows.items() if table != "tracks")
    if not report.files or empty:
        told = "; ".join(f"{file}: {why}" for file, all_ in report.skipped.items() for why in all_)
        raise UnreadableError(told or "no file of a known format is there")
    return report


def import_job(
    paths: Sequence[Path],
    store: str,
    name: str,
    *,
    now_ns: int,
    kept: bool = True,
    on: str | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[JobFolder, Report]:
    """Import traces into a new job of a store, which ends when the last of them does.

    A job that is `kept` ends with a compaction where it was made of many files, as of one a rank: each of
    them left files of its own in the store, and opening these would cost whoever reads them.

    Raises:
        UnreadableError: Nothing could be read; then there is no job either.
        BadJobName, JobExists, StoreNotWritable: The job cannot be made.
        OSError: The store or the temporary disk cannot be written.
    """
    command = ["holter", "import", *map(str, paths)]
    folder = job.create(store, name, command=command, interval_ms=500, rules=[], now_ns=now_ns)
    try:
        report = import_paths(paths, folder, on=on, on_progress=on_progress)
    except BaseException:
        folder.place.destroy()
        raise
    folder.update(
        start=now_ns if report.start_ns is None else report.start_ns,
        end=now_ns if report.end_ns is None else report.end_ns,
        status="Completed",
        interval_ms=None,
        imported=report.said(),
    )
    if kept and len(report.files) >= MIN_FILES:
        compact(folder)
    return folder, report


def _take_tensors(source: Path, folder: JobFolder, report: Report) -> None:
    """Read the tensors that smdebug saved in a folder; a job holds those of one."""
    label = str(source)
    if TENSORS_FORMAT in report.files.values():
        report.skip(label, "a job holds the tensors of one folder: import this one as a job of its own")
        return
    tensors = TensorFolder(source, folder)
    try:
        faults = tensors.update()
    except MissingCollectionsError as missing:
        report.skip(label, str(missing))
        return
    for fault in faults:
        report.skip(label, fault)
    report.files[label] = TENSORS_FORMAT
    report.events += tensors.tensors
    report.rows += tensors.rows
    report.ranks |= {f"{label}/{worker}": rank for worker, rank in tensors.ranks.items()}
    if tensors.start_ns is not None and tensors.end_ns is not None:
        report.start_ns, report.end_ns = tensors.start_ns, tensors.end_ns


class _Job:
    """Writes traces into a job, each under its rank and its node."""

    def __init__(self, folder: JobFolder, report: Report) -> None:
        self._folder = folder
        self._report = report
        self._writers: dict[str, Writer] = {}
        self._taken: set[int] = set()
        self._owners: dict[str, int] = {}
        self._cpus: dict[str, int] = {}

    def take(self, trace: Trace, label: str, importer: Importer, error: Exception | None) -> None:
        """Write the rows of one file, or note why it could not be read; the report holds what goes wrong."""
        report = self._report
        if trace.omitted is not report.omitted:  # another process read it
            report.omitted.update(trace.omitted)
        try:
            if error is not None:
                raise error
            rank = self._rank(trace)
            trace.write(self._writer(trace.node), rank, report)
            if trace.cpus > self._cpus.get(trace.node, 0):
                self._cpus[trace.node] = trace.cpus
        except (UnreadableError, OSError, LostTaskError) as fault:
            report.skip(label, str(fault))
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
        if told is None and not trace.staging.rows:
            return -1  # it holds nothing of a rank's
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
