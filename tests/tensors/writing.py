"""Jobs with tensors, written as a recorder would: rows of statistics, small values, safetensors files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as safetensors

import holter
from holter.store import job
from holter.store.writer import Writer
from holter.tensors import Source


def statistics(array: np.ndarray) -> dict[str, float]:
    """Say of an array what a row of table `tensors` says, with numpy and in double precision."""
    x = np.asarray(array, dtype=np.float64).reshape(-1)
    finite = x[np.isfinite(x)]
    found: dict[str, float] = {
        "count": x.size,
        "nan": int(np.isnan(x).sum()),
        "posinf": int((x == np.inf).sum()),
        "neginf": int((x == -np.inf).sum()),
        "zeros": int((x == 0).sum()),
    }
    if finite.size:
        found |= {
            "min": finite.min(),
            "max": finite.max(),
            "mean": finite.mean(),
            "std": finite.std(),
            "abs_mean": np.abs(finite).mean(),
            "q50": np.median(finite),
        }
    return found


class Recording:
    """A job whose tensors are written step by step."""

    def __init__(self, store: Path, name: str = "job", ranks: Iterable[int] = (0,)) -> None:
        self.folder = job.create(str(store), name, command=["true"], interval_ms=500, rules=[], now_ns=1)
        self.told: dict[str, Any] = {"schema": 1, "collections": {}, "modes": [], "ranks": list(ranks)}
        self.tell()

    def tell(self, **collections: Mapping[str, Any]) -> None:
        """Write `tensors.json`, with these collections in addition."""
        self.told["collections"].update(collections)
        self.folder.place.write("tensors.json", json.dumps(self.told).encode())

    def save(
        self,
        step: int,
        tensors: Mapping[str, Any] = {"gradients/dummy": 1.0},
        *,
        mode: str = "train",
        rank: int = 0,
        raw: bool = False,
        values: bool = False,
        rows: bool = True,
        own: int | None = None,
        roles: Mapping[str, str] = {},
    ) -> None:
        """Save tensors of one rank at one step; `own`: what its mode counts the step as."""
        arrays = {name: np.asarray(value) for name, value in tensors.items()}
        moment = {"time": 1000 * step + rank, "rank": rank, "step": step, "mode": mode}
        writer = Writer(self.folder, "n0")
        if rows:
            each = [
                {**moment, "name": n, "role": roles.get(n, ""), **statistics(a)} for n, a in arrays.items()
            ]
            writer.append("tensors", {key: [row.get(key) for row in each] for key in _keys(each)})
        if values:
            kinds = [
                {**moment, "name": name, "kind": kind, "position": n, "value": float(x)}
                for name, array in arrays.items()
                for kind, elements in (("value", array.reshape(-1)), ("shape", array.shape))
                for n, x in enumerate(elements)
            ]
            writer.append("tensor_values", {key: [row[key] for row in kinds] for key in kinds[0]})
        assert writer.close(), writer.fault
        if raw:
            self.put(step, safetensors(arrays), mode=mode, rank=rank)
        if own is not None:
            self.told.setdefault("mode_steps", {}).setdefault(mode, []).append([own, step])
            self.tell()

    def describe(self, step: int, name: str, rank: int = 0, **kinds: float) -> None:
        """Save single numbers that describe a tensor of one rank at one step."""
        writer = Writer(self.folder, "n0")
        row = {"time": 1000 * step + rank, "rank": rank, "step": step, "mode": "train", "name": name}
        rows = [{**row, "kind": kind, "position": 0, "value": value} for kind, value in kinds.items()]
        writer.append("tensor_values", {key: [row[key] for row in rows] for key in rows[0]})
        assert writer.close(), writer.fault

    def put(self, step: int, data: bytes, *, mode: str = "train", rank: int = 0) -> Path:
        """Put a file of raw tensors."""
        key = f"tensors-raw/node=n0/rank={rank}/{step:09d}-{mode}.safetensors"
        self.folder.place.write(key, data)
        return Path(self.folder.url) / key

    def end(self) -> None:
        """End the job."""
        self.folder.update(end=2, status="Completed")

    def source(self, **more: Any) -> Source:
        """Open it to read, and look once."""
        source = Source(self.folder, **more)
        source.refresh()
        return source

    def open(self) -> holter.Job:
        """Open it as a user does."""
        return holter.open(self.folder.url)


def _keys(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))
