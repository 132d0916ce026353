"""The index of a store: what the lists of a fleet need of each ended job, in few files.

The agent that ends a job adds one small file. The agent that finds many of them packs them into one. Nobody
coordinates them: files are created once, a job that is in two files counts once, and a job that is in none is
read from its own manifest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING

import msgspec

from holter.store.document_types import IndexEntry
from holter.store.urls import place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.place import Entry, Place

FOLDER = "_index"
"""No name of a job begins like this."""
_LOOSE, _PACKED = "loose/", "packed/"
PACK_AT = 100
"""So many single files are packed: a list of 10,000 jobs reads 100 packed files and fewer single ones."""
_ATTEMPTS = 3


def add(store_url: str, entry: IndexEntry) -> None:
    """Add an ended job to the index of its store; packs single files if there are many. Raises `OSError`."""
    index = place(store_url).below(FOLDER)
    with contextlib.suppress(FileExistsError):
        index.create()
    index.write(f"{_LOOSE}{entry['id']}.json", _written([entry]))
    loose = [one for one in index.files() if one.key.startswith(_LOOSE)]
    if len(loose) >= PACK_AT:
        _pack(index, loose)


def entries(store_url: str) -> list[IndexEntry]:
    """Return the jobs of the index of a store, each once; damaged files count as absent. Raises `OSError`."""
    index = place(store_url).below(FOLDER)
    for attempt in range(_ATTEMPTS):
        files = [one for one in index.files() if one.key.startswith((_LOOSE, _PACKED))]
        try:
            return list({one["id"]: one for _, listed in _read(index, files) for one in listed}.values())
        except FileNotFoundError:  # packed meanwhile
            if attempt == _ATTEMPTS - 1:
                raise
    return []


def _pack(index: Place, loose: Sequence[Entry]) -> None:
    """Write single files into one, then remove them; what two agents pack at the same time counts once."""
    try:
        read = _read(index, loose)
    except FileNotFoundError:
        return  # another agent packs them
    known = {entry["id"]: entry for _, listed in read for entry in listed}
    name = hashlib.sha256(" ".join(sorted(known)).encode()).hexdigest()[:24]
    index.write(f"{_PACKED}{name}.json", _written(list(known.values())))
    for one, _ in read:  # a damaged file stays
        index.delete(one.key)


def _read(index: Place, files: Sequence[Entry]) -> list[tuple[Entry, list[IndexEntry]]]:
    """Return the jobs of each file that can be read; raises `FileNotFoundError` if one is gone."""
    index.fetch(files)
    found = []
    for one in files:
        with contextlib.suppress(msgspec.MsgspecError):
            data = index.local(one).read_bytes()
            found.append((one, msgspec.json.decode(data, type=list[IndexEntry])))
    return found


def _written(listed: list[IndexEntry]) -> bytes:
    return json.dumps(listed, separators=(",", ":")).encode()
