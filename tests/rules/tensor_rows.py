"""Rows of tables `tensors`, `tensor_values` and `scalars`, as the recorder would summarise given values."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from tests.rules.tables import SECOND, START

from holter.schema.table import Table


def summary(values: Any, before: Any = None) -> dict[str, Any]:
    """Summarise a tensor by the statistics of the schema; `before` is what it was at its last row."""
    x = np.asarray(values, dtype=np.float64).ravel()
    finite = x[np.isfinite(x)]
    row: dict[str, Any] = {
        "count": len(x),
        "nan": int(np.isnan(x).sum()),
        "posinf": int((x == np.inf).sum()),
        "neginf": int((x == -np.inf).sum()),
        "zeros": int((x == 0).sum()),
        "fingerprint": zlib.crc32(np.asarray(values, dtype=np.float64).tobytes()) or 1,
    }
    if len(finite):
        q05, q50, q95 = np.quantile(finite, [0.05, 0.5, 0.95])
        row |= {"min": finite.min(), "max": finite.max(), "mean": finite.mean(), "std": finite.std()}
        row |= {"abs_mean": np.abs(finite).mean(), "q05": q05, "q50": q50, "q95": q95}
    if before is not None and len(x):
        delta = x - np.asarray(before, dtype=np.float64).ravel()
        row |= {"delta_l2": np.linalg.norm(delta), "delta_abs_mean": np.abs(delta).mean()}
        row["delta_max"] = np.abs(delta).max()
    return row


def tensor(name: str, by_step: dict[int, Any], *, role: str = "", **about: Any) -> list[dict[str, Any]]:
    """Make the rows of one tensor from step → its values; each is compared with the one before."""
    rows, before = [], None
    for step, values in by_step.items():
        rows.append(_place(step, about) | {"name": name, "role": role} | summary(values, before))
        before = values if np.shape(before if before is not None else values) == np.shape(values) else None
    return [row | about for row in rows]


def weight(name: str, by_step: dict[int, Any], **about: Any) -> list[dict[str, Any]]:
    """Make the rows of one weight."""
    return tensor(name, by_step, role="weight", **about)


def elements(name: str, by_step: dict[int, Any], **about: Any) -> list[dict[str, Any]]:
    """Make the rows of `tensor_values` that hold a tensor's elements and its shape."""
    rows = []
    for step, values in by_step.items():
        array = np.asarray(values, dtype=np.float64)
        for kind, listed in (("shape", array.shape), ("value", array.ravel().tolist())):
            for position, value in enumerate(listed):
                row = {"name": name, "kind": kind, "position": position, "value": value}
                rows.append(_place(step, about) | row | about)
    return rows


def counters(name: str, active: Any, samples: int, *, step: int = 0, **about: Any) -> list[dict[str, Any]]:
    """Make the rows of `tensor_values` that count how often units were active."""
    listed = [("active", i, float(a)) for i, a in enumerate(active)] + [("samples", 0, float(samples))]
    return [
        _place(step, about) | {"name": name, "kind": k, "position": i, "value": v} | about
        for k, i, v in listed
    ]


def whole(name: str, by_step: dict[int, Any], *, role: str = "", **about: Any) -> dict[str, Table]:
    """Make both tables of one tensor: statistics and elements."""
    return {
        "tensors": rows(tensor(name, by_step, role=role, **about)),
        "tensor_values": Table.of("tensor_values", elements(name, by_step, **about)),
    }


def together(*parts: dict[str, Table]) -> dict[str, Table]:
    """Put tables of several tensors together."""
    return {name: Table.concat([part[name] for part in parts]) for name in parts[0]}


def labelled(labels: Any, predictions: Any, step: int = 0) -> dict[str, Table]:
    """Make both tables of the labels of one step, and of the predictions to them."""
    parts = [whole("labels", {step: labels}, role="labels")]
    if predictions is not None:
        parts.append(whole("predictions", {step: predictions}, role="predictions"))
    return together(*parts)


def rows(*parts: list[dict[str, Any]]) -> Table:
    """Put rows of `tensors` together."""
    return Table.of("tensors", [row for part in parts for row in part])


def numbers(name: str, by_step: dict[int, float], *, mode: str = "train", rank: int = 0) -> Table:
    """Make logged numbers from step → value."""
    about = {"mode": mode, "rank": rank}
    return Table.of(
        "scalars", [_place(s, about) | about | {"name": name, "value": v} for s, v in by_step.items()]
    )


def _place(step: int, about: dict[str, Any]) -> dict[str, Any]:
    return {"time": START + step * SECOND, "rank": 0, "step": step, "mode": "train", "node": "n0"} | {
        key: value for key, value in about.items() if key in ("time", "rank", "mode", "node")
    }
