"""Stores tensors: statistics, values, whole tensors, and the list of collections."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from holter.agent.drain.frames import ROW, Frames, Rows, TensorFact, TensorValues
from holter.agent.drain.journal import RecordedEvent
from holter.schema import tensor_spool as spool
from holter.schema.phases import Mode
from holter.store.raw_tensors import RAW
from holter.store.tensors_json import TENSORS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holter.agent.drain.drain import Drain
    from holter.store.documents import Document
    from holter.store.parquet.columns import Column
    from holter.store.writer import Writer

_DOCUMENT_S = 2.0
_MOST_RANKS = 1 << 16
"""A larger world is damage."""
_MODES = [mode.name.lower() for mode in Mode]
_KINDS = {int(kind): kind.name.lower() for kind in spool.Values}


class TensorDrain:
    """Takes the tensor files of all processes of one spool."""

    def __init__(self, drain: Drain, writer: Writer, *, raw_limit: int = spool.RAW_LIMIT) -> None:
        self.raw_bytes = 0
        self.dropped = {"files": 0, "bytes": 0}
        self._drain = drain
        self._writer = writer
        self._raw_limit = raw_limit
        self._frames: dict[str, Frames] = {}
        self._told_dropped = 0
        self._collections: dict[str, dict[str, object]] = {}
        self._tensors: dict[str, set[str]] = {}
        self._modes: set[str] = set()
        self._ranks: set[int] = set()
        self._changed = False
        self._written = 0.0

    def poll(self, *, final: bool = False) -> list[RecordedEvent]:
        """Take new rows and files; return events. Raises `OSError` when the store cannot take them now."""
        drain, listing = self._drain, self._drain.listing
        for key in sorted({*listing.frames, *listing.tensors}):
            process = drain.processes.get(key)
            if process is None:
                continue
            ended = final or process.died is not None
            if drain.ranks.settle(process, time.monotonic_ns(), final=ended):
                self._expect(process.world_size or 0)
                frames = self._frames.setdefault(key, Frames(drain.spool, key, drain.read_files))
                self._take(frames, listing.frames.get(key, []), drain.ranks.of(process), final=ended)
                for name in listing.tensors.get(key, ()):
                    self._move(drain.spool / name, name.split(".")[1], drain.ranks.of(process))
        if self._changed and (final or time.monotonic() - self._written >= _DOCUMENT_S):
            self._write_document()
        return self._dropped_event()

    def _expect(self, world: int) -> None:
        """Tell of all ranks as soon as one saves: a step is complete once all of them have saved it."""
        if len(self._ranks) < world <= _MOST_RANKS:
            self._ranks.update(range(world))
            self._changed = True

    def _take(self, frames: Frames, numbers: list[int], rank: int, *, final: bool) -> None:
        rows, values = frames.take(numbers, final=final)
        if rows:
            self._append_rows(rows, rank)
        if values:
            self._append_values(values, rank)
        for name, settings in frames.collections.items():
            if self._collections.get(name) != settings:
                self._collections[name] = settings
                self._changed = True

    def _append_rows(self, rows: Rows, rank: int) -> None:
        tensors, payloads = zip(*rows, strict=True)
        array = np.frombuffer(b"".join(payloads), ROW)
        columns: dict[str, Column] = {name: array[name] for name in (*spool.COUNTS, "step", "fingerprint")}
        with np.errstate(over="ignore"):
            for name in (*spool.STATISTICS, *spool.DELTAS):
                columns[name] = array[name].astype(np.float32)
        columns["time"] = array["time"] + self._drain.clock.offset
        columns["rank"] = np.full(len(rows), rank, np.int32)
        columns["mode"] = (np.minimum(array["mode"], len(_MODES) - 1), _MODES)
        columns["state"] = (np.minimum(array["state"], len(spool.STATES) - 1), spool.STATES)
        for name in ("name", "role", "part", "parts"):
            columns[name] = [getattr(tensor, name) for tensor in tensors]
        self._writer.append("tensors", columns)
        self._note(tensors, array["mode"].tolist(), rank)

    def _append_values(self, values: list[TensorValues], rank: int) -> None:
        sizes = [len(one.elements) for one in values]
        place = np.repeat(np.arange(len(values)), sizes)
        times = np.array([one.time + self._drain.clock.offset for one in values], np.int64)
        self._writer.append(
            "tensor_values",
            {
                "time": times[place],
                "rank": np.full(len(place), rank, np.int32),
                "step": np.array([one.step for one in values], np.int32)[place],
                "mode": (place, [_MODES[min(one.mode, len(_MODES) - 1)] for one in values]),
                "name": (place, [one.tensor.name for one in values]),
                "kind": (place, [_KINDS.get(one.kind, f"kind {one.kind}") for one in values]),
                "position": np.concatenate([np.arange(size, dtype=np.int32) for size in sizes]),
                "value": np.concatenate([one.elements for one in values]),
            },
        )
        self._note([one.tensor for one in values], [one.mode for one in values], rank)

    def _note(self, tensors: Sequence[TensorFact], modes: list[int], rank: int) -> None:
        """Keep which tensors, modes and ranks there are."""
        before = (sum(map(len, self._tensors.values())), len(self._modes), len(self._ranks))
        for tensor in tensors:
            for collection in tensor.collections:
                self._tensors.setdefault(collection, set()).add(tensor.name)
        self._modes |= {_MODES[min(mode, len(_MODES) - 1)] for mode in modes}
        self._ranks.add(rank)
        after = (sum(map(len, self._tensors.values())), len(self._modes), len(self._ranks))
        self._changed = self._changed or before != after

    def _move(self, path: Path, when: str, rank: int) -> None:
        """Move a file of whole tensors into the store, within the limit of bytes."""
        try:
            size = path.stat().st_size
        except OSError:
            return
        key = f"{RAW}/node={quote(self._writer.node, safe='')}/rank={rank}/{when}.safetensors"
        draft = self._writer.folder.place.draft(key)
        if self.raw_bytes + size > self._raw_limit or size + spool.RAW_RESERVE > spool.free_bytes(
            draft.parent
        ):
            self.dropped["files"] += 1
            self.dropped["bytes"] += size
            draft.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            return
        try:
            shutil.copyfile(path, draft)
            self._writer.folder.place.add(key, draft)
        except FileExistsError:
            # Another process of this rank saved the step before, as after a restart; or it was stored
            # already by an agent that was killed before it removed it here.
            if self._writer.folder.place.read(key) != path.read_bytes():
                self.dropped["files"] += 1
                self.dropped["bytes"] += size
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        else:
            self.raw_bytes += size
        path.unlink(missing_ok=True)

    def _dropped_event(self) -> list[RecordedEvent]:
        if self.dropped["files"] == self._told_dropped:
            return []
        self._told_dropped = self.dropped["files"]
        detail = {"what": "whole tensors", **self.dropped, "limit": self._raw_limit}
        return [RecordedEvent(self._drain.clock.time_ns(), -1, "dropped", "tensors", detail)]

    def _write_document(self) -> None:
        """Write `tensors.json`, joined with what other nodes wrote."""
        place = self._writer.folder.place
        with place.lock(""):
            try:
                there = json.loads(place.read(TENSORS))
            except (FileNotFoundError, ValueError):
                there = {}
            place.write(TENSORS, json.dumps(self._joined(there), indent=1).encode())
        self._changed = False
        self._written = time.monotonic()

    def _joined(self, there: Document) -> Document:
        collections = dict(there.get("collections", {}))
        for name in {*self._collections, *self._tensors}:
            known = collections.get(name, {})
            tensors = set(known.get("tensors", ())) | self._tensors.get(name, set())
            collections[name] = {**known, **self._collections.get(name, {}), "tensors": sorted(tensors)}
        return {
            "schema": 1,
            "collections": collections,
            "modes": sorted(self._modes | set(there.get("modes", ()))),
            "ranks": sorted(self._ranks | set(there.get("ranks", ()))),
        }
