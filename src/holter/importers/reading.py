"""Reads the files of an import, here or by other processes, each into a `Trace`."""

from __future__ import annotations

import sqlite3
import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holter.importers.executors import LostTaskError, executor, in_order, processes
from holter.importers.files import IMPORTERS, files
from holter.importers.report import Report, UnreadableError, own_fault
from holter.importers.trace import Trace
from holter.schema.varint import BadMessageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from holter.importers.files import FileToImport, Importer

_DAMAGE = (
    BadMessageError,
    EOFError,
    UnicodeError,
    msgspec.MsgspecError,
    sqlite3.DatabaseError,
    struct.error,
    zlib.error,
)
"""What decoders and databases raise at damaged data; anything else is no file's fault."""

_WORTH_BYTES = 100_000_000
"""Compressed or not: so many bytes beside the largest file take seconds to read."""
_AT_ONCE = 64
"""Files that a cluster works on at once; their rows wait on the temporary disk."""


def traces(
    paths: Sequence[Path],
    report: Report,
    room: Path,
    without: Collection[Path],
    on: str | None,
    on_progress: Callable[[str, int, int], None] | None,
) -> Iterator[tuple[FileToImport, Trace, Exception | None]]:
    """Read the files, and yield each in its order; files of an archive are read here, one by one."""
    inside = [file for path in paths for file in _inside(path)]
    archive = next((file for file in inside if file.suffix.lower() == ".zip"), None)
    if on is None:
        on = "processes" if archive is None and _worth_processes(inside) else "here"
    if on == "here":
        for found in files(paths, report, room, without):
            trace = Trace(found.path, report, on_progress)
            yield found, trace, _fault_of(trace, found.importer)
        return
    if archive is not None:
        raise UnreadableError(f"{archive}: other processes read no archives; unpack it, or leave out --on")
    listed = list(files(paths, report, room, without))
    tasks = [_Task(found.path, found.importer.FORMAT, room) for found in listed]
    number = processes() if on == "processes" else _AT_ONCE
    results = in_order(partial(executor, on), _read_apart, tasks, at_once=number)
    for found, (_, result) in zip(listed, results, strict=True):
        if isinstance(result, LostTaskError):
            yield found, Trace(found.path, report), result
            continue
        if on_progress is not None:
            size = found.path.stat().st_size
            on_progress(str(found.path), size, size)
        yield found, *result


class _Task(NamedTuple):
    """A file that another process reads."""

    path: Path
    format: str
    rows: Path
    """The folder for its rows, which this process sees too."""


def _read_apart(task: _Task) -> tuple[Trace, Exception | None]:
    """Read a file in a process of its own."""
    trace = Trace(task.path, Report(), folder=task.rows)
    importer = next(one for one in IMPORTERS if task.format == one.FORMAT)
    error = _fault_of(trace, importer)
    return trace, error


def _inside(path: Path) -> Iterator[Path]:
    """Yield a file, or the files of a folder."""
    if path.is_dir():
        yield from (file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        yield path


def _worth_processes(inside: Sequence[Path]) -> bool:
    """Return whether there are several files, and so large that starting processes is worth it."""
    if processes() < 2 or len(inside) < 2:
        return False
    sizes = [file.stat().st_size for file in inside]
    return sum(sizes) - max(sizes) >= _WORTH_BYTES


def _fault_of(trace: Trace, importer: Importer) -> Exception | None:
    """Read a file; return why it cannot be read at all, else None."""
    try:
        _read(trace, importer)
    except (UnreadableError, OSError) as error:
        return error
    return None


def _read(trace: Trace, importer: Importer) -> None:
    """Read a file; damage that its reader did not foresee costs what comes behind it, nothing else.

    So does a fault of the reader itself, but nobody is told that it is the file's.
    """
    try:
        importer.read(trace.path, trace)
    except (UnreadableError, OSError, MemoryError):
        raise
    except _DAMAGE as error:
        why = f"{type(error).__name__}: {error}"[:200]
        if not trace.staging.rows:
            raise UnreadableError(f"it is no trace of this format, or a damaged one ({why})") from error
        trace.skipped[f"what comes behind damage ({why})"] += 1
    except Exception as error:
        if not trace.staging.rows:
            raise UnreadableError(own_fault(error)) from error
        trace.skipped[f"what comes behind {own_fault(error)}"] += 1
