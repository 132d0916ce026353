"""Sends a job to TensorBoard: event files next to those that the training writes."""

from __future__ import annotations

import itertools
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holter.report.exports.tensorboard import EventFile
from holter.report.sinks import PREFIX, SinkError
from holter.schema.protobuf import bytes_field, number_field, text_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holter.report.sinks import SentJob, StepNumbers, TrackerTarget, TrackerVerdict

ABOUT = "event files in the log folder that the training writes, else in runs/JOB"
NEEDS = ""
OPTIONS = ("dir",)
LIVE = True

_DEEPEST = 5
_MOST_FOLDERS = 5000
_TEXT_PLUGIN = "text"
_STRING = 7
"""The number of `DT_STRING` in TensorFlow's `types.proto`."""
_numbers = itertools.count()


def open_run(target: TrackerTarget, job: SentJob) -> TensorBoardRun:
    """Return a run: the folder of the option `dir`, else the newest that the job writes, else a new one."""
    given = target.options.get("dir")
    folder = Path(given) if given else _written(Path(job.folder), job.began_ns)
    if folder is None:
        folder = Path(job.folder) / "runs" / job.name
    return TensorBoardRun(folder)


class TensorBoardRun:
    """Writes one event file."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self.resume: Mapping[str, str] = {"dir": str(folder)}
        now = time.time()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / _file_name(now)).open("xb")
        except OSError as error:
            raise SinkError(f"{folder}: {error.strerror}") from None
        self._events = EventFile(self._file, now)

    def log(self, points: Sequence[StepNumbers]) -> None:
        """Add numbers of steps."""
        try:
            for point in points:
                for name, value in point.values.items():
                    self._events.scalar(PREFIX + name, point.step, point.time_ns / 1e9, value)
            self._file.flush()
        except OSError as error:
            raise SinkError(f"{self.where}: {error.strerror}") from None

    def judge(self, found: TrackerVerdict) -> None:
        """Add the verdict as text, and the key numbers at step 0."""
        now = time.time()
        try:
            for name, value in found.numbers.items():
                self._events.scalar(f"{PREFIX}summary/{name}", 0, now, value)
            self._events.value(0, now, _text(f"{PREFIX}verdict", found.text))
            self._file.flush()
        except OSError as error:
            raise SinkError(f"{self.where}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _file_name(now: float) -> str:
    """Return a name that no other run has: TensorBoard's own names hold the same parts."""
    return f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}.holter"


def _text(tag: str, text: str) -> bytes:
    """Return a summary value that TensorBoard's page of texts shows as Markdown."""
    plugin = bytes_field(1, text_field(1, _TEXT_PLUGIN))
    shape = bytes_field(2, number_field(1, 1))
    tensor = number_field(1, _STRING) + bytes_field(2, shape) + bytes_field(8, text.encode())
    return text_field(1, tag) + bytes_field(9, plugin) + bytes_field(8, tensor)


def _written(root: Path, since_ns: int) -> Path | None:
    """Return the folder below `root` with the newest event file that was written since then."""
    newest: tuple[int, Path] | None = None
    for path in _event_files(root):
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            continue
        if changed >= since_ns and (newest is None or changed > newest[0]):
            newest = changed, path.parent
    return newest[1] if newest else None


def _event_files(root: Path) -> Iterator[Path]:
    for looked, (folder, below, files) in enumerate(os.walk(root), 1):
        depth = len(Path(folder).relative_to(root).parts)
        below[:] = [] if depth >= _DEEPEST else [name for name in below if not name.startswith((".", "_"))]
        yield from (
            Path(folder, name) for name in files if "tfevents" in name and not name.endswith(".holter")
        )
        if looked >= _MOST_FOLDERS:
            return
