"""Creates, finds and lists jobs, and reads and writes a job's JSON documents."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import secrets
import time
from typing import TYPE_CHECKING, Any

from holter.schema.masking import masked
from holter.schema.tables import SCHEMA_VERSION
from holter.schema.windows import with_order
from holter.store.documents import Document, parsed, usable
from holter.store.index import FOLDER
from holter.store.layout import CONTROL, EVALUATIONS, JOB_NAME, MANIFEST, node_key, parse_node
from holter.store.place import LocalPlace
from holter.store.urls import place

if TYPE_CHECKING:
    from holter.store.document_types import LaunchEntry
    from holter.store.place import Place

DEFAULT_STORE = "./holter-jobs"
STORE_VARIABLE = "HOLTER_STORE"
_MOST_NAMED = 5


class BadJobName(ValueError):
    """The name is not valid for a job."""


class JobExists(ValueError):
    """The store has a job of this name already."""


class StoreNotWritable(ValueError):
    """Nothing can be created in the store."""


class JobNotFound(LookupError):
    """The store has no such job."""


class JobFolder:
    """One job in a store. Reading never raises for damage: unreadable parts are missing, see `faults`."""

    def __init__(self, where: Place, name: str) -> None:
        self.place = where
        self.name = name
        self.faults: list[str] = []
        """Problems in this job's documents, each once."""

    def __repr__(self) -> str:
        return f"JobFolder({self.url!r})"

    @property
    def url(self) -> str:
        """The URL that `at` opens."""
        return self.place.url

    @property
    def fault(self) -> str | None:
        """The problem of the manifest; None for a valid one."""
        self.manifest()
        return next((f for f in self.faults if f.startswith(MANIFEST)), None)

    def manifest(self) -> Document:
        """Return the manifest; of a damaged one only `name`."""
        manifest = self._document(MANIFEST)
        if not manifest:
            if not any(fault.startswith(MANIFEST) for fault in self.faults):
                self._say(f"{MANIFEST} is missing")
        elif manifest.get("schema") != SCHEMA_VERSION:
            wrote = manifest.get("schema")
            self._say(f"{MANIFEST} has schema version {wrote!r}; this holter reads {SCHEMA_VERSION}")
        return {"name": self.name, **manifest}

    def update(self, **changes: Any) -> Document:
        """Change entries of the manifest in one piece; returns it. Raises `OSError`."""
        with self.place.lock(""):
            manifest = {"name": self.name, **self._kept(MANIFEST), **changes}
            self._write(MANIFEST, manifest)
        return manifest

    def node(self, node: str) -> Document:
        """Return the facts of one node; empty when it has written no facts."""
        return self._document(node_key(node))

    def nodes(self) -> dict[str, Document]:
        """Return the facts of every node that has written some."""
        names = sorted(n for entry in self.place.files("nodes") if (n := parse_node(entry.key)) is not None)
        return {name: self.node(name) for name in names}

    def write_node(self, node: str, facts: Document, *, new: bool = False) -> None:
        """Put a node's facts in place of those before, which is an error when `new`. Raises `OSError`."""
        self._write(node_key(node), facts, new=new)

    def update_node(self, node: str, **changes: Any) -> None:
        """Change facts of one node, which only that node does. Raises `OSError`."""
        self._write(node_key(node), {**self._kept(node_key(node)), **changes})

    def control(self) -> Document:
        """Return the latest orders to the job."""
        return self._document(CONTROL)

    def order(self, **orders: Any) -> None:
        """Add orders to the earlier ones in one piece. Raises `OSError`.

        A `profile` does not replace those of the last minute, because an agent may not have seen them yet.
        """
        with self.place.lock(""):
            control = {**self._kept(CONTROL), **orders}
            if "profile" in orders:
                control = with_order(control, orders["profile"], time.time())
            self._write(CONTROL, control)

    def evaluations(self) -> Document:
        """Return the status and the issues of the job's rules."""
        return self._document(EVALUATIONS)

    def write_evaluations(self, evaluations: Document) -> None:
        """Put the status and the issues of the job's rules. Raises `OSError`."""
        self._write(EVALUATIONS, evaluations)

    def _write(self, key: str, document: Document, *, new: bool = False) -> None:
        self.place.write(key, json.dumps(document, indent=1).encode(), new=new)

    def _kept(self, key: str) -> Document:
        """Return a document to change it; raises `OSError` so that an unreachable one is not replaced."""
        try:
            return parsed(self.place.read(key))
        except FileNotFoundError:
            pass
        except (ValueError, RecursionError) as error:
            self._say(f"{key} cannot be read: {error}")
        return {}

    def _document(self, key: str) -> Document:
        try:
            document = self._kept(key)
        except OSError as error:
            self._say(f"{key} cannot be read: {error}")
            return {}
        sound, faults = usable(key, document)
        for fault in faults:
            self._say(f"{key} {fault}")
        return sound

    def _say(self, fault: str) -> None:
        if fault not in self.faults:
            self.faults.append(fault)


def store_url(given: str | None = None) -> str:
    """Return the store to use: the one given, else `HOLTER_STORE`, else `./holter-jobs`."""
    return given or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


def check_name(name: str) -> None:
    """Raise `BadJobName` for an invalid name."""
    if JOB_NAME.fullmatch(name) is None:
        raise BadJobName(
            f"{name!r} is not a job name; valid are at most 128 letters, digits, '.', '_' and '-' between "
            "them, a letter or digit first, no '-' last"
        )


def create(
    store_url: str,
    name: str,
    *,
    command: list[str],
    interval_ms: int,
    rules: list[Document],
    now_ns: int,
    launch: LaunchEntry | None = None,
) -> JobFolder:
    """Create a job: its folder and its manifest, which has status InProgress and no secrets in the command.

    Args:
        store_url: The store; created when it does not exist.
        name: The job's name.
        command: The command that the job runs.
        interval_ms: Sampling interval in milliseconds.
        rules: The rules of the job, each with name and parameters.
        now_ns: The time, nanoseconds since the epoch.
        launch: The launch over several nodes that records the job.

    Raises:
        BadJobName: The name is not valid.
        JobExists: The name is taken; the text names a free one.
        StoreNotWritable: The store cannot be written.
    """
    check_name(name)
    try:
        store = place(store_url)
    except ValueError as error:
        raise StoreNotWritable(str(error)) from error
    folder = JobFolder(store.below(name), name)
    manifest = {
        "schema": SCHEMA_VERSION,
        "name": name,
        "id": secrets.token_hex(8),
        "status": "InProgress",
        "command": masked(command),
        "interval_ms": interval_ms,
        "rules": list(rules),
        "created": now_ns,
        "start": now_ns,
        "end": None,
        "exit_code": None,
        "signal": None,
        "failure": None,
        "framework": None,
        "attempts": [],
        **({"launch": launch} if launch else {}),
    }
    try:
        folder.place.create()
        try:
            folder._write(MANIFEST, manifest, new=True)
        except FileExistsError:
            # In an object store it can be our own: sent once more because the answer was lost.
            if folder.manifest().get("id") != manifest["id"]:
                raise
        except OSError:
            with contextlib.suppress(OSError):
                if not folder.place.files():  # whoever was faster has written a manifest
                    folder.place.destroy()
            raise
    except OSError as error:
        taken = set(store.folders()) if isinstance(error, FileExistsError) else set()
        if name in taken:
            raise JobExists(
                f"job {name!r} exists in store {store_url!r}; {_free(name, taken)!r} is free"
            ) from error
        raise StoreNotWritable(f"store {store_url!r} cannot be written: {_reason(error)}") from error
    return folder


def find(store_url: str, name: str) -> JobFolder:
    """Return the job called `name`; raises `JobNotFound` with similar names."""
    store = place(store_url)
    folder = JobFolder(store.below(name), name)
    if JOB_NAME.fullmatch(name) and _readable(folder):
        return folder
    names = [one for one in store.folders() if one != FOLDER]
    if name in names and JOB_NAME.fullmatch(name):
        return folder  # without a manifest, but its tables may be there
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        hint = "near names: " + ", ".join(near)
    elif names:
        more = ", ..." if len(names) > _MOST_NAMED else ""
        some = ", ".join(sorted(names)[:_MOST_NAMED]) + more
        hint = f"it has {len(names)} job{'s' if len(names) > 1 else ''}: {some}"
    else:
        # A folder with another spelling looks like an empty store.
        there = not isinstance(store, LocalPlace) or store.path.is_dir()
        hint = "it has none" if there else "there is no such folder"
    raise JobNotFound(f"no job {name!r} in store {store_url!r}; {hint}")


def at(url: str) -> JobFolder:
    """Return the job at a URL, as in `holter-jobs/my-job`; raises `JobNotFound`."""
    trimmed = url.rstrip("/")
    store, slash, name = trimmed.rpartition("/")
    return find(store if store or not slash else "/", name) if slash else find(".", name)


def jobs(store_url: str) -> list[JobFolder]:
    """List the store's jobs, newest first; those without a readable manifest come last, with a `fault`."""
    store = place(store_url)
    found = [JobFolder(store.below(name), name) for name in store.folders() if JOB_NAME.fullmatch(name)]
    created = {folder.name: folder.manifest().get("created") for folder in found}
    return sorted(found, key=lambda job: (created[job.name] is None, -(created[job.name] or 0), job.name))


def _free(name: str, taken: set[str]) -> str:
    return next(free for n in range(2, len(taken) + 3) if (free := f"{name[:120]}-{n}") not in taken)


def _readable(folder: JobFolder) -> bool:
    try:
        folder.place.read(MANIFEST)
    except OSError:
        return False
    return True


def _reason(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.strerror and error.filename else str(error)
