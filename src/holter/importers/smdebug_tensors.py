"""Import what smdebug saved (`collections/`, `index/`, `events/`) as a job: statistics, values, collections.

Files may come from anywhere: a bad one costs only itself and is named, and none outside the folder is read.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.importers.event_records import BadRecordError, event
from holter.store import job
from holter.store.raw import RAW, pack
from holter.store.tensors_json import TENSORS
from holter.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from holter.store.job import JobFolder

END = "training_job_end.ts"
LONGEST = 1 << 30
"""Bytes of a record, at most."""

_INDEX = re.compile(r"(\d{1,12})_(.+)\.json")
_COLLECTIONS = re.compile(r"(.+)_collections\.json(?:\.json)?")
_REDUCTION = re.compile(
    r"smdebug/reductions/(abs_)?(min|max|mean|std|variance|sum|prod|l1|l2)/(.+)", re.DOTALL
)
_MODES = ("train", "eval", "predict", "global")
_NODE = "smdebug"


class NotSmdebugError(ValueError):
    """The folder holds nothing that smdebug saved."""


class MissingCollectionsError(ValueError):
    """The job has ended, and some of its workers did not write their collections."""


def is_smdebug(folder: Path) -> bool:
    """Tell whether a folder looks like one that smdebug wrote."""
    return (folder / "collections").is_dir() and not (folder / "job.json").exists()


def import_smdebug(folder: Path, store: str, name: str) -> tuple[JobFolder, list[str]]:
    """Import a folder into a new job of a store.

    Statistics are worked out of values that were saved. Of reductions without values, min, max, mean, std and
    the mean of absolute values are kept; norms and the sum where they tell these or the number of elements.
    The std that smdebug saved for PyTorch is the sample's (n - 1), and is kept as it is.

    Args:
        folder: Where smdebug wrote.
        store: The store to import into.
        name: What to call the job.

    Returns:
        The job, and what could not be read, each with its file and why.

    Raises:
        NotSmdebugError: There is nothing of smdebug.
        MissingCollectionsError: Workers did not write theirs, and the job has ended.
    """
    if not is_smdebug(folder):
        raise NotSmdebugError(f"{folder} has no folder 'collections': smdebug did not write it")
    return _Import(folder.resolve(), store, name).run()


class _Import:
    def __init__(self, source: Path, store: str, name: str) -> None:
        self.source = source
        self.faults: list[str] = []
        self.collections: dict[str, Any] = {}
        self.mode_steps: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self.ranks: dict[str, int] = {}
        self._read_collections()
        command = ["smdebug", str(source)]
        self.folder = job.create(store, name, command=command, interval_ms=500, rules=[], now_ns=0)
        self.writer = Writer(self.folder, _NODE)

    def run(self) -> tuple[JobFolder, list[str]]:
        """Import all there is."""
        for path in sorted((self.source / "index").rglob("*.json")):
            match = _INDEX.fullmatch(path.name)
            if match is None or int(match[1]) >= 10**9:
                self._fault(path, "its name is none of an index")
                continue
            try:
                self._step(path, int(match[1]), self._rank(match[2]))
            except (OSError, ValueError, RecursionError) as error:
                self._fault(path, str(error))
        self.writer.close()
        document = {
            "schema": 1,
            "collections": self.collections,
            "modes": sorted(self.mode_steps),
            "ranks": sorted(self.ranks.values()),
            "mode_steps": {m: [list(pair) for pair in sorted(pairs)] for m, pairs in self.mode_steps.items()},
        }
        self.folder.place.write(TENSORS, json.dumps(document).encode())
        if (self.source / END).exists():
            self.folder.update(end=1, status="Completed")
        return self.folder, self.faults

    def _read_collections(self) -> None:
        workers, expected = [], 0
        for path in sorted((self.source / "collections").rglob("*.json")):
            match = _COLLECTIONS.fullmatch(path.name)
            if match is None:
                continue
            workers.append(match[1])
            try:
                told = json.loads(path.read_bytes())
                expected = max(expected, int(told.get("_meta", {}).get("num_workers", 1)))
                for name, collection in told.get("collections", {}).items():
                    self.collections.setdefault(str(name), _collection(collection))
            except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
                self._fault(path, str(error))
        if (self.source / END).exists() and len(workers) < expected:
            raise MissingCollectionsError(f"{len(workers)} of {expected} workers wrote their collections")
        for worker in workers:
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
            self.mode_steps[mode].add((own, step))
        values: dict[str, NDArray[Any]] = {}
        reductions: dict[str, dict[str, float]] = defaultdict(dict)
        shapes: dict[str, list[int]] = {}
        seconds = 0.0
        for entry in told.get("shape_payload") or []:
            shapes[str(entry.get("tensorname"))] = [int(size) for size in entry.get("shape") or []]
        events = told.get("tensor_payload") or []
        if events:
            data = self._events(str(meta.get("event_file_name")))
            for entry in events:
                try:
                    found = event(_slice(data, entry))
                except BadRecordError as bad:
                    self._fault(path, f"{str(entry)[:120]}: {bad}")
                    continue
                seconds = found.wall_time
                reduction = _REDUCTION.fullmatch(found.tag)
                if reduction is None:
                    values[found.tag] = found.array
                elif found.array.size == 1 and found.array.dtype.kind in "fiub":
                    reductions[reduction[3]][f"{reduction[1] or ''}{reduction[2]}"] = float(
                        found.array.reshape(-1)[0]
                    )
        moment = {"time": int(seconds * 1e9), "rank": rank, "step": step, "mode": mode}
        rows = {name: _statistics(array) for name, array in values.items() if array.dtype.kind in "fiub"}
        for name, known in reductions.items():
            rows.setdefault(name, _known(known, shapes.get(name)))
        self._write(moment, rows, shapes)
        kept = {name: array for name, array in values.items() if array.dtype != np.complex128}
        if kept:
            key = f"{RAW}/node={_NODE}/rank={rank}/{step:09d}-{mode}.safetensors"
            says = {name: str(value) for name, value in moment.items()}
            self.folder.place.write(key, pack(kept, says))

    def _write(
        self,
        moment: Mapping[str, Any],
        rows: Mapping[str, Mapping[str, float]],
        shapes: Mapping[str, list[int]],
    ) -> None:
        each: list[dict[str, Any]] = [{**moment, "name": name, **row} for name, row in rows.items()]
        sizes = [
            {**moment, "name": name, "kind": "shape", "position": n, "value": size}
            for name, shape in shapes.items()
            for n, size in enumerate(shape)
        ]
        for table, listed in (("tensors", each), ("tensor_values", sizes)):
            keys = list(dict.fromkeys(key for row in listed for key in row))
            if keys:
                self.writer.append(table, {key: [row.get(key) for row in listed] for key in keys})

    def _events(self, name: str) -> memoryview:
        path = (self.source / name).resolve()
        if not path.is_relative_to(self.source):
            raise ValueError(f"its event file {name!r} lies outside the folder")
        return memoryview(np.memmap(path, np.uint8, "r").data) if path.stat().st_size else memoryview(b"")

    def _fault(self, path: Path, why: str) -> None:
        self.faults.append(f"{path.relative_to(self.source)}: {why}")


def _slice(data: memoryview, entry: Any) -> bytes:
    begin, length = (
        (entry.get(k) for k in ("start_idx", "length")) if isinstance(entry, dict) else (None, None)
    )
    if type(begin) is not int or type(length) is not int or not 0 <= length <= LONGEST:
        raise BadRecordError("no place in the event file")
    if not 0 <= begin <= len(data) - length:
        raise BadRecordError(f"lies at bytes {begin} to {begin + length} of {len(data)}")
    return bytes(data[begin : begin + length])


def _collection(told: Mapping[str, Any]) -> dict[str, Any]:
    modes: Mapping[str, Any] = told.get("save_config") or {}
    schedule = {
        str(mode).lower(): {
            "interval": config.get("save_interval"),
            "start": config.get("start_step"),
            "end": config.get("end_step"),
            "steps": config.get("save_steps"),
        }
        for mode, config in modes.items()
        if isinstance(config, dict) and config
    }
    form = told.get("reduction_config") or {}
    return {
        "include_regex": list(told.get("include_regex") or []),
        "roles": [],
        "schedule": schedule,
        "statistics": [],
        "histogram": bool(told.get("save_histogram")),
        "raw": bool(form.get("save_raw_tensor")),
        "tensors": sorted(map(str, told.get("tensor_names") or [])),
    }


def _statistics(array: NDArray[Any]) -> dict[str, float]:
    """Return what a row of table `tensors` says of an array."""
    x = array.reshape(-1).astype(np.float64)
    finite = x[np.isfinite(x)]
    row: dict[str, float] = {"count": x.size, "nan": int(np.isnan(x).sum()), "zeros": int((x == 0).sum())}
    row |= {"posinf": int((x == np.inf).sum()), "neginf": int((x == -np.inf).sum())}
    if finite.size:
        row |= {"min": finite.min(), "max": finite.max(), "mean": finite.mean(), "std": finite.std()}
        row |= {"abs_mean": np.abs(finite).mean(), "q50": np.median(finite)}
    return row


def _known(known: Mapping[str, float], shape: list[int] | None) -> dict[str, float]:
    """Return what reductions that were saved alone say: also how many elements there were, if they tell."""
    row = {k: known[k] for k in ("min", "max", "mean", "std") if k in known}
    if "variance" in known and "std" not in known and known["variance"] >= 0:
        row["std"] = known["variance"] ** 0.5
    count = float(np.prod(shape, dtype=np.float64)) if shape is not None else 0.0
    norm = known.get("l1", known.get("abs_sum"))
    for whole, each in ((norm, known.get("abs_mean")), (known.get("sum"), known.get("mean"))):
        if not count and whole and each and np.isfinite(whole / each) and 0 < whole / each < 1e18:
            count = float(round(whole / each))
    if "abs_mean" in known or (norm is not None and count):
        row["abs_mean"] = known["abs_mean"] if "abs_mean" in known else (norm or 0.0) / count
    if "std" not in row and count and {"l2", "mean"} <= set(known):
        row["std"] = max(known["l2"] ** 2 / count - known["mean"] ** 2, 0.0) ** 0.5
    return {**row, "count": int(count)}
