"""Creates and rotates the memory-mapped files of one thread; a full disk costs records only."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.recorder.native.mapped import Mapped
from holter.schema import record

if TYPE_CHECKING:
    import mmap

RETRY_NS = 1_000_000_000
"""After a file could not be created, how long to drop records before the next try."""

_HIGH = 200
"""The recorder's descriptors are at least this; 256 is the lowest limit in use."""
_MADV_POPULATE_WRITE = 23
"""Linux's number for it; `mmap` has no name for it."""

_WORD = struct.Struct("=q")


@dataclass(frozen=True)
class Spool:
    """The files of one process in the spool directory: their place, their size, and how many may wait."""

    directory: str
    process: str
    segment_records: int = record.SEGMENT_RECORDS
    max_segments: int = record.MAX_SEGMENTS

    def path(self, name: str) -> str:
        """Path of the file called `name`."""
        return os.path.join(self.directory, name)


class ThreadFiles:
    """The head page and the segments of one thread."""

    def __init__(self, spool: Spool, thread: int) -> None:
        self.spool = spool
        self.thread = thread
        self.started = 0
        """Segments created so far."""
        self._waiting: deque[int] = deque()

    def open_head(self, step: int, dropped: int) -> mmap.mmap:
        """Create the calling thread's head page; raises `OSError`. Its magic word is written last."""
        head = create(self.spool.path(record.head_name(self.spool.process, self.thread)), record.HEAD_SIZE)
        words = {
            record.HEAD_VERSION: record.SPOOL_VERSION,
            record.HEAD_STEP: step,
            record.HEAD_DROPPED: dropped,
            record.HEAD_THREAD: threading.get_native_id(),
            record.HEAD_IDENT: threading.get_ident(),
            0: record.HEAD_MAGIC,
        }
        for word, value in words.items():
            _WORD.pack_into(head, word * 8, value)
        return head

    def next_segment(self) -> mmap.mmap | None:
        """Create the next segment; None when too many wait for the agent. Raises `OSError`."""
        if len(self._waiting) >= self.spool.max_segments:
            self._waiting = deque(number for number in self._waiting if os.path.exists(self._path(number)))
            if len(self._waiting) >= self.spool.max_segments:
                return None
        segment = create(self._path(self.started), self.spool.segment_records * record.RECORD_SIZE)
        self._waiting.append(self.started)
        self.started += 1
        return segment

    def _path(self, number: int) -> str:
        return self.spool.path(record.segment_name(self.spool.process, self.thread, number))


def create(path: str, size: int) -> mmap.mmap:
    """Create a file of `size` bytes whose blocks exist, and map it. Raises `OSError`.

    Blocks are allocated now because a write into a mapped hole on a full disk is a SIGBUS, which would
    kill the training, whereas this is an `OSError`. A file that is truncated later loses what is written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        memory = Mapped(descriptor, size)
        memory.keep()
        _populate(memory)
        return memory
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def open_apart(path: str) -> int:
    """Open a file to append to, with a high descriptor: scripts that count on low ones find theirs free.

    Raises `OSError`.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # few descriptors are allowed here
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        os.close(descriptor)
        return high
    return descriptor


def _populate(memory: mmap.mmap) -> None:
    """Make the pages writable now: cheaper than a page fault each, and proof that the disk has space."""
    try:
        memory.madvise(_MADV_POPULATE_WRITE)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a kernel before 5.14, which populates at the first write
            raise
