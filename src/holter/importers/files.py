"""Which files of what was given are traces, and of which format; archives are unpacked, within bounds."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holter.importers import nsight, torchtitan, xplane
from holter.importers.kineto import chrome_json
from holter.importers.kineto.trace_events import LONGEST_HEADER, MOST_EXPANSION
from holter.importers.sagemaker import profiler as sagemaker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from holter.importers.report import Report
    from holter.importers.trace import Trace

MOST_FILES = 100_000
MOST_UNPACKED = 16 << 30
"""Bytes that an archive may unpack to."""
_REASONS = {
    ".nsys-rep": "Nsight Systems has to export it first: nsys export --type sqlite",
    ".qdrep": "Nsight Systems has to export it first: nsys export --type sqlite",
    ".ncu-rep": "reports of Nsight Compute are of single kernels, and are not read",
    ".pftrace": "traces of Perfetto in its own format are not read; its trace_processor exports JSON",
    ".perfetto-trace": "traces of Perfetto in its own format are not read; its trace_processor exports JSON",
    ".pickle": "pickles are never read: they can execute anything",
    ".pkl": "pickles are never read: they can execute anything",
    ".pt": "pickles are never read: they can execute anything",
    ".zst": "unpack it first: zstd -d",
    ".xz": "unpack it first: xz -d",
    ".bz2": "unpack it first: bzip2 -d",
    ".tar": "unpack it first: tar -xf",
    ".tar.gz": "unpack it first: tar -xf",
    ".tgz": "unpack it first: tar -xf",
    ".rar": "unpack it first",
    ".7z": "unpack it first",
}
_POINTER = "it is a pointer of Git LFS, not the file itself: fetch that first with `git lfs pull`"
_POINTS = b"version https://git-lfs.github.com/spec/"


class Importer(Protocol):
    """A module that reads one format."""

    FORMAT: str

    def recognizes(self, path: Path) -> bool:
        """Tell whether a file may be of this format, by its name and its first bytes."""

    def read(self, path: Path, trace: Trace) -> None:
        """Read a file into a trace; raises `UnreadableError` or `OSError`."""


IMPORTERS: tuple[Importer, ...] = (sagemaker, xplane, nsight, torchtitan, chrome_json)
"""In the order in which they are asked: those that know a file by its name and place first."""


class FileToImport(NamedTuple):
    """A file to import."""

    path: Path
    label: str
    """What it is called: its path, or where it lies in an archive."""
    importer: Importer


def files(
    paths: Sequence[Path], report: Report, unpacking: Path, without: Collection[Path] = ()
) -> Iterator[FileToImport]:
    """Yield the files to import; the report names what cannot be read.

    Args:
        paths: Files, folders and archives (.zip).
        report: Names what cannot be read.
        unpacking: An empty folder to unpack archives in; each is removed once its files are imported.
        without: Folders whose files are left out.
    """
    for path in paths:
        if path.exists() and not (path.is_file() or path.is_dir()):
            report.skip(
                str(path), "it is no file: a pipe cannot be read twice, and who writes it may never come"
            )
            continue
        inside = [path]
        if path.is_dir():
            there = [
                p for p in path.rglob("*") if p.is_file() and not any(one in without for one in p.parents)
            ]
            inside = _once(sorted(there, key=_counted), report)
        for file in inside[:MOST_FILES]:
            reason = next((why for end, why in _REASONS.items() if file.name.lower().endswith(end)), None)
            try:
                reason = _POINTER if _is_pointer(file) else reason
                if file.suffix.lower() == ".zip" and reason is None:
                    yield from _unpacked(file, report, unpacking)
                    continue
                importer = None if reason else next((one for one in IMPORTERS if one.recognizes(file)), None)
                if importer is None and reason is None and file == path and chrome_json.may_be(file):
                    importer = chrome_json
            except OSError as error:
                report.skip(str(file), str(error))
                continue
            if importer is not None:
                yield FileToImport(file, str(file), importer)
            # Of the files in a folder, those are worth a word that can be made readable, and were not yet.
            elif (
                file == path
                or reason == _POINTER
                or (reason and "first" in reason and not file.with_suffix(".sqlite").exists())
            ):
                report.skip(str(file), reason or "its format is unknown")
        if len(inside) > MOST_FILES:
            report.skip(str(path), f"files beyond the first {MOST_FILES:,}", len(inside) - MOST_FILES)


def _is_pointer(file: Path) -> bool:
    """Tell whether a file only says where Git's large file storage keeps what should stand in it."""
    with file.open("rb") as start:
        return start.read(len(_POINTS)) == _POINTS


def _counted(path: Path) -> list[str | int]:
    """Sort as people count: `trace_2` before `trace_10`, for files whose place in the order is their rank."""
    return [int(part) if n % 2 else part for n, part in enumerate(re.split(r"([0-9]+)", str(path)))]


def _once(inside: list[Path], report: Report) -> list[Path]:
    """Leave out a file whose trace lies in the same folder in another form: both would be two ranks."""
    there, kept = set(inside), []
    for file in inside:
        twin = file.with_suffix("") if file.suffix == ".gz" else None
        if file.name.endswith(".trace.json.gz"):
            xplane = file.with_name(file.name.removesuffix(".trace.json.gz") + ".xplane.pb")
            twin = xplane if xplane in there else twin
        elif file.name == "perfetto_trace.json.gz":
            twin = next(
                (p for p in inside if p.parent == file.parent and p.name.endswith(".xplane.pb")), twin
            )
        if twin in there:
            report.skip(str(file), f"{twin.name} beside it is the same trace")
        else:
            kept.append(file)
    return kept


def _unpacked(archive: Path, report: Report, unpacking: Path) -> Iterator[FileToImport]:
    """Yield the files of an archive, unpacked one by one under names of their own: theirs lead nowhere."""
    target = unpacking / archive.name
    target.mkdir()
    try:
        with zipfile.ZipFile(archive) as packed:
            members = [member for member in packed.infolist() if not member.is_dir()]
            size = sum(member.file_size for member in members)
            most = min(MOST_UNPACKED, LONGEST_HEADER + MOST_EXPANSION * archive.stat().st_size)
            if size > most or len(members) > MOST_FILES:
                raise zipfile.BadZipFile(f"it holds {len(members):,} files of {size:,} bytes: too many")
            for number, member in enumerate(members):
                file = target / f"{number}" / Path(member.filename).name
                file.parent.mkdir()
                with packed.open(member) as source, file.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                importer = next((one for one in IMPORTERS if one.recognizes(file)), None)
                if importer is not None:
                    yield FileToImport(file, f"{archive}/{member.filename}", importer)
                shutil.rmtree(file.parent)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, ValueError) as error:
        report.skip(str(archive), f"the archive cannot be unpacked: {error}")
    finally:
        shutil.rmtree(target, ignore_errors=True)
