"""A prefix of an object store as a place: S3 and what speaks like it, Google's, Azure's, or memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore.exceptions
import obstore.store

from holter.store.place import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE_DAYS = 7
"""What was fetched is kept on this machine for so many days after it was last read."""

_MEMORY: dict[str, Any] = {}
"""Stores in memory by URL: within one process the same URL is the same store."""


class ObjectPlace:
    """A prefix in an object store. Files are fetched whole, once, into a cache on this machine."""

    def __init__(self, store: Any, prefix: str, url: str) -> None:
        self.url = url
        self._store = store
        self._prefix = prefix
        # The store's own description belongs to the cache's name: two buckets may have the same prefix.
        self.reads_from = _cache_folder() / hashlib.sha256(f"{store!r} {url}".encode()).hexdigest()[:24]

    @classmethod
    def open(cls, url: str) -> ObjectPlace:
        """Open a URL; credentials and endpoint come from the environment. Raises `ValueError`."""
        root = url.rstrip("/")
        if root.startswith("memory:"):
            return cls(_MEMORY.setdefault(root, obstore.store.MemoryStore()), "", root)
        try:
            store = obstore.store.from_url(root, client_options={"allow_http": True})
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise ValueError(f"{url!r} is no store: {_first_line(error)}") from error
        return cls(store, "", root)

    def below(self, name: str) -> ObjectPlace:
        """Return the place one folder further down."""
        return ObjectPlace(self._store, f"{self._prefix}{name}/", f"{self.url}/{name}")

    def create(self) -> None:
        """Raise `FileExistsError` when something is there; there are no folders to make."""
        if self._list(""):
            raise FileExistsError(f"{self.url} exists")

    def folders(self) -> list[str]:
        """List the folders directly below, none when the place is not there."""
        with _as_os_errors(self.url):
            found = self._store.list_with_delimiter(self._prefix.rstrip("/") or None)
        names = (prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        return sorted(name for name in names if not name.startswith("."))

    def files(self, folder: str = "") -> list[Entry]:
        """List all files below a folder, none when it is not there."""
        entries = []
        for found in self._list(folder):
            key = found["path"][len(self._prefix) :]
            if not any(piece.startswith(".") for piece in key.split("/")):
                stamp = found["e_tag"] or found["last_modified"].isoformat()
                entries.append(Entry(key, found["size"], stamp))
        return entries

    def _list(self, folder: str) -> list[Any]:
        with _as_os_errors(self.url):
            listed: list[Any] = self._store.list(f"{self._prefix}{folder}".rstrip("/") or None).collect()
        return listed

    def read(self, key: str) -> bytes:
        """Return a whole file."""
        with _as_os_errors(f"{self.url}/{key}"):
            return bytes(self._store.get(self._prefix + key).bytes())

    def write(self, key: str, data: bytes, *, new: bool = False) -> None:
        """Put a file in one piece, in place of the one before; `new`: raise `FileExistsError` instead."""
        with _as_os_errors(f"{self.url}/{key}"):
            self._store.put(self._prefix + key, data, mode="create" if new else "overwrite")

    def draft(self, key: str) -> Path:
        """Return a path in this machine's folder for temporary files."""
        handle, path = tempfile.mkstemp(prefix="holter-", suffix=".draft")
        os.close(handle)
        return Path(path)

    def add(self, key: str, draft: Path, *, durable: bool = False) -> None:
        """Put a prepared file; raises `FileExistsError` when there is one. The draft is gone afterwards."""
        with _as_os_errors(f"{self.url}/{key}"):
            # In one piece: many servers know "create only" for whole objects, not for those in parts.
            self._store.put(self._prefix + key, draft, mode="create", use_multipart=False)
        draft.unlink(missing_ok=True)

    def local(self, entry: Entry) -> Path:
        """Fetch a file, unless it was fetched before and is still the same."""
        name = hashlib.sha256(f"{entry.key} {entry.size} {entry.stamp}".encode()).hexdigest()[:32]
        path = self.reads_from / f"{name}.parquet"
        if path.exists():
            os.utime(path)
            return path
        self.reads_from.mkdir(parents=True, exist_ok=True)
        _forget_old(self.reads_from)
        handle, draft = tempfile.mkstemp(prefix=".", dir=self.reads_from)
        try:
            with os.fdopen(handle, "wb") as file, _as_os_errors(f"{self.url}/{entry.key}"):
                for chunk in self._store.get(self._prefix + entry.key).stream():
                    file.write(chunk)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        return path

    def delete(self, key: str) -> None:
        """Remove a file; one that is not there is no fault."""
        with contextlib.suppress(FileNotFoundError), _as_os_errors(f"{self.url}/{key}"):
            self._store.delete(self._prefix + key)

    def destroy(self) -> None:
        """Remove all files of the place, the manifest last, so that half a job is still a job."""
        listed = sorted((found["path"] for found in self._list("")), key=lambda path: path.count("/"))
        with _as_os_errors(self.url):
            for path in reversed(listed):
                self._store.delete(path)

    def changed_ns(self) -> int:
        """Return when any file of it changed last, nanoseconds since the epoch; 0 when there is none."""
        return max((int(found["last_modified"].timestamp() * 1e9) for found in self._list("")), default=0)

    @contextlib.contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        """Hold nothing: each node writes its own folders, and names are created once."""
        yield


@contextlib.contextmanager
def _as_os_errors(where: str) -> Iterator[None]:
    """Say what an object store's client raises as what a disk would."""
    try:
        yield
    except obstore.exceptions.AlreadyExistsError as error:
        raise FileExistsError(f"{where} exists") from error
    except obstore.exceptions.NotFoundError as error:
        raise FileNotFoundError(f"{where} is not there") from error
    except obstore.exceptions.BaseError as error:
        raise OSError(f"{where}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "holter"


def _forget_old(folder: Path) -> None:
    limit = time.time() - CACHE_DAYS * 24 * 3600
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < limit:
                path.unlink()
