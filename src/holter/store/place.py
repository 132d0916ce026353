"""The interface of a storage location, and its implementation for folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Entry(NamedTuple):
    """A stored file: its key below the place, its size in bytes, and a stamp that changes with the file."""

    key: str
    size: int
    stamp: str


class Place(Protocol):
    """A folder or a prefix. Keys use `/`; names that start with a dot are unfinished and never listed.

    Every failure is an `OSError`, and `FileNotFoundError` or `FileExistsError` where they apply.
    """

    url: str
    reads_from: Path
    """The local folder that contains the files of `local`."""
    lists_at_once: int
    """A listing of fewer files than this is a snapshot; files can come and go during a longer one."""

    def below(self, name: str) -> Place:
        """Return the place one folder further down."""

    def create(self) -> None:
        """Make this place; raises `FileExistsError` when it exists."""

    def folders(self) -> list[str]:
        """List the folders directly below; an absent place has no folders."""

    def files(self, folder: str = "") -> list[Entry]:
        """List all files below a folder; an absent folder has no files."""

    def read(self, key: str) -> bytes:
        """Return a whole file."""

    def stamp(self, key: str) -> str | None:
        """Return a stamp that changes with the file; None where asking costs as much as reading."""
        return None

    def write(self, key: str, data: bytes, *, new: bool = False) -> None:
        """Put a file in one piece, in place of the one before; `new`: raise `FileExistsError` instead."""

    def draft(self, key: str) -> Path:
        """Return a local path on which the file for `key` may be prepared before `add`."""

    def add(self, key: str, draft: Path, *, durable: bool = False) -> None:
        """Put a prepared file; raises `FileExistsError` when there is one. The draft is gone afterwards."""

    def local(self, entry: Entry) -> Path:
        """Return a local path from which the file can be read."""

    def fetch(self, entries: Sequence[Entry]) -> None:
        """Fetch many files at once, so that `local` returns quickly; local files need nothing."""
        return

    def delete(self, key: str) -> None:
        """Remove a file if it exists."""

    def destroy(self) -> None:
        """Remove the place and all it holds."""

    def changed_ns(self) -> int:
        """Return when a file changed last, nanoseconds since the epoch; 0 without files."""

    def lock(self, folder: str) -> contextlib.AbstractContextManager[None]:
        """Lock a folder against other writers where the place supports it; `""` means the documents."""


def user_cache() -> Path:
    """Return this user's folder for files that can be fetched or computed again; raises `OSError`."""
    given = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(given):
        raise OSError(f"{given!r} is not an absolute path; set XDG_CACHE_HOME")
    return Path(given) / "holter"


OUTSIDE = "is a link that leads out of the store"
_NO_FILE = "is not a regular file"


class LocalPlace(Place):
    """A folder of this machine, or of a file system that is mounted on it.

    Links that lead out of the store are not followed, because others may write to a store too. New files
    belong to their owner alone, whatever the umask is; a store folder with the set-group-ID bit, in which a
    group works, passes its own permissions on.
    """

    lists_at_once = 0

    def __init__(self, path: Path, store: Path | None = None) -> None:
        self.path = Path(os.path.abspath(path.expanduser()))
        self.url = str(self.path)
        self.reads_from = self.path
        self._store = store or self.path

    def below(self, name: str) -> LocalPlace:
        """Return the place one folder further down."""
        return LocalPlace(self.path / name, self._store)

    def create(self) -> None:
        """Make this folder and those above it; raises `FileExistsError` when it is there already."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._inside(self.path)
        self.path.mkdir(mode=0o700)
        above = stat.S_IMODE(self.path.parent.stat().st_mode)
        if above & stat.S_ISGID:
            self.path.chmod(above & 0o2777 | 0o700)

    def folders(self) -> list[str]:
        """List the folders directly below; an absent place has no folders."""
        try:
            with os.scandir(self.path) as entries:
                return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def files(self, folder: str = "") -> list[Entry]:
        """List all files below a folder; a directory where a file should be is listed with size -1."""
        found: list[Entry] = []
        if not self._leads_inside(self.path / folder):
            return found
        self._scan(str(self.path / folder), f"{folder}/" if folder else "", found)
        return found

    def _leads_inside(self, path: str | Path) -> bool:
        store = os.path.realpath(self._store)
        return os.path.commonpath([store, os.path.realpath(path)]) == store

    def _inside(self, path: Path) -> Path:
        """Return a path; raises `OSError` when links in it lead out of the store."""
        if not self._leads_inside(path):
            raise OSError(errno.ELOOP, f"it {OUTSIDE}, and is not followed", str(path))
        return path

    def _scan(self, path: str, prefix: str, found: list[Entry]) -> None:
        try:
            with os.scandir(path) as listed:
                entries = [e for e in listed if not e.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            key = prefix + entry.name
            try:
                if entry.is_symlink() and not self._leads_inside(entry.path):
                    found.append(Entry(key, 0, OUTSIDE))
                elif not entry.is_dir():
                    status = entry.stat()
                    if not stat.S_ISREG(status.st_mode):
                        found.append(Entry(key, 0, _NO_FILE))
                        continue
                    found.append(Entry(key, status.st_size, f"{status.st_mtime_ns}-{status.st_ino}"))
                elif entry.name.endswith(".parquet"):
                    found.append(Entry(key, -1, "folder"))
                else:
                    self._scan(entry.path, key + "/", found)
            except FileNotFoundError:
                if entry.is_symlink():
                    found.append(Entry(key, 0, "broken link"))

    def stamp(self, key: str) -> str | None:
        """Return a stamp that changes with the file; "" for an absent file."""
        try:
            status = os.stat(self.path / key)
        except OSError:
            return ""
        return f"{status.st_mtime_ns}-{status.st_ino}"

    def read(self, key: str) -> bytes:
        """Return a whole file."""
        # A pipe would be waited for.
        with open(self._inside(self.path / key), "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, f"it {_NO_FILE}", str(self.path / key))
            return file.read()

    def write(self, key: str, data: bytes, *, new: bool = False) -> None:
        """Put a file in one piece, in place of the one before; `new`: raise `FileExistsError` instead."""
        draft = self.draft(key)
        try:
            draft.write_bytes(data)
            if new:
                self.add(key, draft, durable=True)
            else:
                draft.replace(self.path / key)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def draft(self, key: str) -> Path:
        """Return a path in the same folder, hidden from readers, so that `add` is one atomic link."""
        target = self.path / key
        self._make(target.parent)
        handle, path = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=".draft", dir=target.parent)
        os.fchmod(handle, self._mode() & 0o666)
        os.close(handle)
        return Path(path)

    def add(self, key: str, draft: Path, *, durable: bool = False) -> None:
        """Put a prepared file; raises `FileExistsError` when there is one. The draft is gone afterwards."""
        if durable:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
        target = self.path / key
        try:
            os.link(draft, target)
        except FileExistsError:
            draft.unlink(missing_ok=True)
            raise
        except OSError:
            # Some file systems have no hard links; then the folder's lock separates two writers.
            if target.exists():
                draft.unlink(missing_ok=True)
                raise FileExistsError(f"{target} exists") from None
            draft.rename(target)
        else:
            draft.unlink()

    def local(self, entry: Entry) -> Path:
        """Return the file's own path; raises `OSError` for a link that leads out of the store."""
        if entry.stamp in (OUTSIDE, _NO_FILE):
            raise OSError(errno.EINVAL, f"it {entry.stamp}", str(self.path / entry.key))
        return self.path / entry.key

    def delete(self, key: str) -> None:
        """Remove a file if it exists."""
        target = self.path / key
        self._inside(target.parent)
        target.unlink(missing_ok=True)

    def destroy(self) -> None:
        """Remove the folder and its content."""
        shutil.rmtree(self.path)

    def changed_ns(self) -> int:
        """Return when any file or folder of it changed last, nanoseconds since the epoch."""
        last = 0
        for folder, _, names in os.walk(self.path):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                with contextlib.suppress(FileNotFoundError):
                    last = max(last, os.lstat(path).st_mtime_ns)
        return last

    def _make(self, path: Path) -> None:
        # A job that was removed must not return as a folder with a few files and no manifest.
        if not self.path.is_dir():
            raise FileNotFoundError(f"{self.path} is gone")
        self._inside(path)
        missing = [one for one in (path, *path.parents) if not one.is_dir()]
        for one in reversed(missing):
            with contextlib.suppress(FileExistsError):
                one.mkdir(mode=0o700)
                one.chmod(self._mode())

    def _mode(self) -> int:
        """Return the permissions of new files: those of the job's folder."""
        return stat.S_IMODE(self.path.stat().st_mode) & 0o2777 | 0o700

    @contextlib.contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        """Lock a folder against other processes; some network disks have no locks."""
        path = self.path / folder
        self._make(path)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
