"""A prefix of an object store as a place: S3 and compatible servers, Google, Azure, or memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore.exceptions
import obstore.store

from holter.store.place import Entry, Place, user_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CACHE_DAYS = 7
"""A fetched file stays on this machine for this number of days after its last use."""
CONNECT_S, ANSWER_S, TRANSFER_S = 5, 20, 600
"""Time limits for the connection, for an answer, and for the transfer of a whole file."""
SMALL = 8_000_000
"""The limit of answers applies to files of fewer bytes."""
_RETRIES: Any = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=ANSWER_S),
    "backoff": {
        "init_backoff": timedelta(milliseconds=200),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
"""Few retries: writers try again later anyway, and a user at a terminal needs the error soon."""
_FETCHES = 8
"""Files fetched at once, because latency dominates the transfer of small files."""
_LOCK = ".lock"
_LOCK_WAIT_S = 30.0
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_WHOSE = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT")
"""Variables that select the server or account of a URL."""
_NO_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|metadata\.google|Missing (AccessKeyId|SecretAccessKey)|Account must be"
)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound")
_UNREACHABLE = re.compile(
    r"error sending request|connection refused|dns error|timed out|error trying to connect", re.I
)
_CODE = re.compile(r"<Code>(\w+)</Code>|status code: (\d+[\w ]*)")
_DENIED = re.compile(r"status code: 40[13]")
_SERVER = re.compile(r"https?://[^/\s?]+")

_MEMORY: dict[str, Any] = {}
"""Stores in memory by URL: within one process the same URL is the same store."""


class ObjectPlace(Place):
    """A prefix in an object store. Files are fetched whole, once, into a cache on this machine."""

    lists_at_once = 1000
    lock_stale_s = 10.0
    """A lock that one holder has for longer belongs to a dead process."""

    def __init__(self, store: Any, prefix: str, url: str, *, patient: Any = None) -> None:
        self.url = url
        self._store = store
        self._patient = patient or store
        """The same store for whole files, which may take longer than answers."""
        self._prefix = prefix
        # Whose bucket it is belongs to the cache's name: two servers may have one of the same name.
        whose = [url, *(os.environ.get(name, "") for name in _WHOSE)]
        self.reads_from = user_cache() / hashlib.sha256(" ".join(whose).encode()).hexdigest()[:24]

    @classmethod
    def open(cls, url: str) -> ObjectPlace:
        """Open a URL; credentials and endpoint come from the environment. Raises `ValueError`."""
        root = url.rstrip("/")
        if "@" in urlsplit(root).netloc:
            raise ValueError("credentials belong in the environment, not in a store's URL, which is recorded")
        if root.startswith("memory:"):
            return cls(_MEMORY.setdefault(root, obstore.store.MemoryStore()), "", root)
        try:
            limits: Any = {"allow_http": True, "connect_timeout": f"{CONNECT_S}s"}
            quick, patient = (
                obstore.store.from_url(root, client_options={**limits, "timeout": t}, retry_config=_RETRIES)
                for t in (f"{ANSWER_S}s", f"{TRANSFER_S}s")
            )
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise ValueError(f"{url!r} is not a store: {_why(error, root)}") from error
        return cls(quick, "", root, patient=patient)

    def below(self, name: str) -> ObjectPlace:
        """Return the place one folder further down."""
        return ObjectPlace(self._store, f"{self._prefix}{name}/", f"{self.url}/{name}", patient=self._patient)

    def create(self) -> None:
        """Raise `FileExistsError` when something is there; there are no folders to make."""
        if self._list(""):
            raise FileExistsError(f"{self.url} exists")

    def folders(self) -> list[str]:
        """List the folders directly below; an absent place has no folders."""
        with _as_os_errors(self.url):
            found = self._store.list_with_delimiter(self._prefix.rstrip("/") or None)
        names = (prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        return sorted(name for name in names if not name.startswith("."))

    def files(self, folder: str = "") -> list[Entry]:
        """List all files below a folder; an absent folder has no files."""
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
        store = self._fit(draft.stat().st_size)
        with _as_os_errors(f"{self.url}/{key}"):
            # In one piece: many servers know "create only" for whole objects, not for those in parts.
            store.put(self._prefix + key, draft, mode="create", use_multipart=False)
        draft.unlink(missing_ok=True)

    def local(self, entry: Entry) -> Path:
        """Fetch a file, unless it was fetched before and is still the same."""
        name = hashlib.sha256(f"{entry.key} {entry.size} {entry.stamp}".encode()).hexdigest()[:32]
        path = self.reads_from / f"{name}.parquet"
        if path.exists():
            os.utime(path)
            return path
        if not self.reads_from.is_dir():
            self.reads_from.mkdir(parents=True, exist_ok=True)
            _forget_old(self.reads_from.parent)
        handle, draft = tempfile.mkstemp(prefix=".", dir=self.reads_from)
        try:
            with os.fdopen(handle, "wb") as file, _as_os_errors(f"{self.url}/{entry.key}"):
                for chunk in self._fit(entry.size).get(self._prefix + entry.key).stream():
                    file.write(chunk)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        return path

    def _fit(self, size: int) -> Any:
        """Return the client that waits as long as a file of so many bytes may take."""
        return self._store if size < SMALL else self._patient

    def fetch(self, entries: Sequence[Entry]) -> None:
        """Bring files to this machine, several at once; those that are gone, and faults, show at `local`."""
        with ThreadPoolExecutor(_FETCHES, "holter-fetch") as pool:
            for fetched in [pool.submit(self.local, entry) for entry in entries]:
                fetched.exception()

    def delete(self, key: str) -> None:
        """Remove a file if it exists."""
        with contextlib.suppress(FileNotFoundError), _as_os_errors(f"{self.url}/{key}"):
            self._store.delete(self._prefix + key)

    def destroy(self) -> None:
        """Remove all files of the place, the manifest last, so that half a job is still a job."""
        listed = sorted((found["path"] for found in self._list("")), key=lambda path: path.count("/"))
        with _as_os_errors(self.url):
            for path in reversed(listed):
                self._store.delete(path)

    def changed_ns(self) -> int:
        """Return when a file changed last, nanoseconds since the epoch; 0 without files."""
        return max((int(found["last_modified"].timestamp() * 1e9) for found in self._list("")), default=0)

    @contextlib.contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        """Lock the documents of the place (`""`): only one process can create the lock object.

        Folders below are not locked: each node writes its own, and names are created once. Raises
        `TimeoutError` when other processes held the lock all the time.
        """
        if folder:
            yield
            return
        self._take(secrets.token_bytes(16))
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # another process will see that it is stale
                self.delete(_LOCK)

    def _take(self, mine: bytes) -> None:
        begin = since = time.monotonic()
        holder = b""
        while time.monotonic() - begin < _LOCK_WAIT_S:
            with contextlib.suppress(FileExistsError):
                self.write(_LOCK, mine, new=True)
                return
            try:
                found = self.read(_LOCK)
            except FileNotFoundError:
                continue
            if found == mine:  # the answer to our first attempt was lost on its way
                return
            if found != holder:
                holder, since = found, time.monotonic()
            elif time.monotonic() - since > self.lock_stale_s:
                self.delete(_LOCK)
            time.sleep(0.05)
        raise TimeoutError(f"{self.url}: others write its documents without a pause")


@contextlib.contextmanager
def _as_os_errors(where: str) -> Iterator[None]:
    """Translate the errors of an object store's client into errors of a disk."""
    try:
        yield
    except obstore.exceptions.AlreadyExistsError as error:
        raise FileExistsError(f"{where} exists") from error
    except obstore.exceptions.NotFoundError as error:
        if _NO_BUCKET.search(str(error)):
            raise OSError(f"{where}: {_why(error, where)}") from error
        raise FileNotFoundError(f"{where} is not there") from error
    except obstore.exceptions.BaseError as error:
        kind = ConnectionError if _UNREACHABLE.search(str(error)) else OSError
        raise kind(f"{where}: {_why(error, where)}") from error


def _why(error: Exception, url: str) -> str:
    """Return one line with the problem and its remedy, without credentials."""
    text, parts = str(error), urlsplit(url)
    code = next((match[1] or match[2] for match in reversed([*_CODE.finditer(text)])), "").strip()
    needed = _CREDENTIALS.get(parts.scheme, "the credentials")
    if "recognise URL" in text:
        return "valid are a folder, s3://…, gs://…, and az://…"
    if _NO_BUCKET.search(text):
        return f"there is no bucket {parts.netloc!r}"
    if _NO_CREDENTIALS.search(text):
        return f"no credentials in the environment; set {needed}"
    server = f"{match[0]} " if (match := _SERVER.search(text)) else ""
    if _UNREACHABLE.search(text):
        return f"{server or 'the server '}cannot be reached"
    denied = (obstore.exceptions.PermissionDeniedError, obstore.exceptions.UnauthenticatedError)
    if isinstance(error, denied) or _DENIED.search(text):
        return f"{server}denies access{f' ({code})' if code else ''}; check {needed}"
    return f"{server}says {code}" if code else text.strip().splitlines()[0]


def _forget_old(folder: Path) -> None:
    """Remove the fetched files of all jobs that were not read for long."""
    limit = time.time() - CACHE_DAYS * 24 * 3600
    for path in folder.glob("*/*"):
        with contextlib.suppress(OSError):  # also raised for the folders of computed results
            if path.stat().st_mtime < limit:
                path.unlink()
