"""Import what smdebug saved (`collections/`, `index/`, `events/`) as a job: statistics, values, collections.

Files may come from anywhere: a bad one costs only itself and is named, and none outside the folder is read.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers.sagemaker.event_records import event
from holter.importers.sagemaker.smdebug_folder import COLLECTIONS, END, INDEX, collection_of, is_smdebug
from holter.importers.sagemaker.smdebug_statistics import of_reductions, of_values
from holter.schema.varint import BadMessageError
from holter.store.raw_tensors import RAW, pack
from holter.store.tensors_json import TENSORS
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.store.job import JobFolder

LONGEST = 1 << 30
"""Bytes of a record, at most."""

_REDUCTION = re.compile(
    r"smdebug/reductions/(abs_)?(min|max|mean|std|variance|sum|prod|l1|l2)/(.+)", re.DOTALL
)
_MODES = ("train", "eval", "predict", "global")
_NODE = "smdebug"


class NotSmdebugError(ValueError):
    """The folder holds nothing that smdebug saved."""


class MissingCollectionsError(ValueError):
    """The job has ended, and some of its workers did not write their collections."""


class TensorFolder:
    """Reads a folder of smdebug's tensors into a job, again and again while smdebug still writes.

    Statistics are worked out of values that were saved. Of reductions without values, min, max, mean, std and
    the mean of absolute values are kept; norms and the sum where they tell these or the number of elements.
    The std that smdebug saved for PyTorch is the sample's (n - 1), and is kept as it is.
    """

    def __init__(self, source: Path, folder: JobFolder) -> None:
        """Open a folder.

        Args:
            source: Where smdebug wrote.
            folder: The job. Its manifest is not touched.

        Raises:
            NotSmdebugError: There is nothing of smdebug.
        """
        if not is_smdebug(source):
            raise NotSmdebugError(f"{source} has no folder 'collections': smdebug did not write it")
        self.source = source.resolve()
        self.folder = folder
        self.ended = False
        """Whether smdebug has ended."""
        self.tensors = 0
        """Tensors and reductions that were read."""
        self.rows: Counter[str] = Counter()
        """Rows written to each table."""
        self.start_ns: int | None = None
        """When the first tensor was saved."""
        self.end_ns: int | None = None
        """When the last tensor was saved."""
        self.ranks: dict[str, int] = {}
        self.indexes: dict[int, list[str]] = defaultdict(list)
        """For each step, the index files that name its tensors."""
        self._faults: list[str] = []
        self._collections: dict[str, dict[str, object]] = {}
        self._mode_steps: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self._seen: dict[Path, tuple[int, int]] = {}
        self._silent: set[str] = set()
        self._writer = Writer(folder, _NODE)

    def update(self) -> list[str]:
        """Take in what came since the last look; return what could not be read, each with its file and why.

        Raises:
            MissingCollectionsError: Workers did not write theirs, and the job has ended.
            OSError: The store cannot be written.
        """
        self._faults = []
        # The end first: whoever writes it has written all else before.
        self.ended = (self.source / END).exists()
        changed = self._read_collections()
        indexes = self._new_indexes()
        self._place({worker for _, _, worker in indexes})
        for path, step, worker in indexes:
            try:
                self._step(path, step, self.ranks[worker])
            except (OSError, ValueError, RecursionError) as error:
                self._fault(path, str(error))
        if not self._writer.flush():
            raise OSError(f"the store cannot be written: {self._writer.fault}")
        if changed or indexes:
            self._tell()
        return self._faults

    def _tell(self) -> None:
        document = {
            "schema": 1,
            "collections": self._collections,
            "modes": sorted(self._mode_steps),
            "ranks": sorted(self.ranks.values()),
            "mode_steps": {
                mode: [list(pair) for pair in sorted(pairs)] for mode, pairs in self._mode_steps.items()
            },
        }
        self.folder.place.write(TENSORS, json.dumps(document).encode())

    def _is_new(self, path: Path) -> bool:
        stat = path.stat()
        found = (stat.st_mtime_ns, stat.st_size)
        known, self._seen[path] = self._seen.get(path), found
        return known != found

    def _read_collections(self) -> bool:
        workers, expected, changed = [], 0, False
        for path in sorted((self.source / "collections").rglob("*.json")):
            match = COLLECTIONS.fullmatch(path.name)
            if match is None:
                continue
            workers.append(match[1])
            if path not in self._seen:
                self._rank(match[1])
                self._silent.add(match[1])
            if not self._is_new(path):
                continue
            changed = True
            try:
                told = json.loads(path.read_bytes())
                expected = max(expected, int(told.get("_meta", {}).get("num_workers", 1)))
                for name, collection in told.get("collections", {}).items():
                    self._collections[str(name)] = collection_of(collection)
            except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
                self._fault(path, str(error))
        if self.ended and len(workers) < expected:
            raise MissingCollectionsError(f"{len(workers)} of {expected} workers wrote their collections")
        return changed

    def _new_indexes(self) -> list[tuple[Path, int, str]]:
        """Return the index files that were not read yet, with their steps and workers."""
        found = []
        for path in sorted((self.source / "index").rglob("*.json")):
            if path in self._seen:
                continue
            self._seen[path] = (0, 0)  # it is never written again
            match = INDEX.fullmatch(path.name)
            if match is None or int(match[1]) >= 10**9:
                self._fault(path, "its name is not that of an index file")
            else:
                found.append((path, int(match[1]), match[2]))
        return found

    def _place(self, workers: set[str]) -> None:
        """Give workers their ranks.

        A worker may be called otherwise in its index files than in its collections file, as `algo-1` and
        `worker_0`: then it takes the rank of one that wrote collections and nothing else. smdebug too only
        counts how many workers wrote a step.
        """
        self._silent -= workers
        for worker in sorted(workers - self.ranks.keys()):
            if self._silent:
                other = min(self._silent)
                self._silent.remove(other)
                self.ranks[worker] = self.ranks.pop(other)
            else:
                self._rank(worker)

    def _rank(self, worker: str) -> int:
        """Return a worker's rank: its number, or for other names the first that is free."""
        if worker not in self.ranks:
            prefix, _, number = worker.rpartition("_")
            taken = set(self.ranks.values())
            if prefix == "worker" and number.isdecimal() and len(number) < 9 and int(number) not in taken:
                self.ranks[worker] = int(number)
            else:
                self.ranks[worker] = next(n for n in range(len(taken) + 1) if n not in taken)
        return self.ranks[worker]

    def _step(self, path: Path, step: int, rank: int) -> None:
        told = json.loads(path.read_bytes())
        meta = told.get("meta") if isinstance(told, dict) else None
        if not isinstance(meta, dict) or not (told.get("tensor_payload") or told.get("shape_payload")):
            raise ValueError("it is no index: 'meta' and a payload are expected")
        mode = str(meta.get("mode", "GLOBAL")).lower()
        own = meta.get("mode_step")
        if mode not in _MODES:
            raise ValueError(f"its mode is {mode!r}")
        if type(own) is int and mode != "global":
            self._mode_steps[mode].add((own, step))
        values: dict[str, NDArray[Any]] = {}
        reductions: dict[str, dict[str, float]] = defaultdict(dict)
        shapes: dict[str, list[int]] = {}
        seconds = 0.0
        for entry in told.get("shape_payload") or []:
            shapes[str(entry.get("tensorname"))] = [int(size) for size in entry.get("shape") or []]
        entries = told.get("tensor_payload") or []
        data = memoryview(b"")
        try:
            data = self._events(str(meta.get("event_file_name"))) if entries else data
        except OSError as error:
            # The step was saved all the same: it stays, without what the file held.
            self._fault(path, str(error))
            entries = []
        for entry in entries:
            try:
                found = event(_slice(data, entry))
            except BadMessageError as bad:
                self._fault(path, f"{str(entry)[:120]}: {bad}")
                continue
            seconds = found.wall_time
            self.tensors += 1
            reduction = _REDUCTION.fullmatch(found.tag)
            if reduction is None:
                values[found.tag] = found.array
            elif found.array.size == 1 and found.array.dtype.kind in "fiub":
                reductions[reduction[3]][f"{reduction[1] or ''}{reduction[2]}"] = float(
                    found.array.reshape(-1)[0]
                )
        moment = {"time": int(seconds * 1e9), "rank": rank, "step": step, "mode": mode}
        if seconds:
            now = int(seconds * 1e9)
            self.start_ns = min(now, self.start_ns or now)
            self.end_ns = max(now, self.end_ns or now)
        rows = {name: of_values(array) for name, array in values.items() if array.dtype.kind in "fiub"}
        for name, known in reductions.items():
            rows.setdefault(name, of_reductions(known, shapes.get(name)))
        self._write(moment, rows, shapes)
        kept = {name: array for name, array in values.items() if array.dtype != np.complex128}
        if kept or not (rows or shapes):
            # A file without tensors too: then the step was saved, and nothing of it can be read.
            key = f"{RAW}/node={_NODE}/rank={rank}/{step:09d}-{mode}.safetensors"
            says = {name: str(value) for name, value in moment.items()}
            self.folder.place.write(key, pack(kept, says))
        self.indexes[step].append(path.relative_to(self.source).as_posix())

    def _write(
        self,
        moment: Mapping[str, object],
        rows: Mapping[str, Mapping[str, float]],
        shapes: Mapping[str, list[int]],
    ) -> None:
        each: list[dict[str, object]] = [{**moment, "name": name, **row} for name, row in rows.items()]
        sizes = [
            {**moment, "name": name, "kind": "shape", "position": n, "value": size}
            for name, shape in shapes.items()
            for n, size in enumerate(shape)
        ]
        for table, listed in (("tensors", each), ("tensor_values", sizes)):
            keys = list(dict.fromkeys(key for row in listed for key in row))
            self.rows[table] += len(listed)
            if keys:
                self._writer.append(table, {key: [row.get(key) for row in listed] for key in keys})

    def _events(self, name: str) -> memoryview:
        path = (self.source / name).resolve()
        if not path.is_relative_to(self.source):
            raise ValueError(f"its event file {name!r} lies outside the folder")
        return memoryview(np.memmap(path, np.uint8, "r").data) if path.stat().st_size else memoryview(b"")

    def _fault(self, path: Path, why: str) -> None:
        self._faults.append(f"{path.relative_to(self.source)}: {why}")


def _slice(data: memoryview, entry: Any) -> bytes:
    begin, length = (
        (entry.get(k) for k in ("start_idx", "length")) if isinstance(entry, dict) else (None, None)
    )
    if type(begin) is not int or type(length) is not int or not 0 <= length <= LONGEST:
        raise BadMessageError("no place in the event file")
    if not 0 <= begin <= len(data) - length:
        raise BadMessageError(f"lies at bytes {begin} to {begin + length} of {len(data)}")
    return bytes(data[begin : begin + length])
