"""Read the tensor files of a spool with nothing but the schema, and whole tensors with `struct`."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from pathlib import Path

from holter.schema import tensor_spool as spool


@dataclass
class Row:
    """One row of statistics."""

    step: int
    mode: int
    name: str
    role: str
    collections: list[str]
    state: str
    values: dict[str, float]

    def __getitem__(self, statistic: str) -> float:
        return self.values[statistic]


@dataclass
class Saved:
    """All that one spool holds of tensors."""

    rows: list[Row] = field(default_factory=list)
    values: dict[tuple[int, str, str], list[float]] = field(default_factory=dict)
    collections: dict[str, dict] = field(default_factory=dict)

    def names(self, step: int | None = None) -> set[str]:
        return {row.name for row in self.rows if step in (None, row.step)}

    def steps(self, name: str) -> list[int]:
        return [row.step for row in self.rows if row.name == name]

    def row(self, name: str, step: int) -> Row:
        (found,) = (row for row in self.rows if row.name == name and row.step == step)
        return found


def saved(folder: Path) -> Saved:
    """Read a spool's frames."""
    found = Saved()
    for path in sorted(Path(folder).glob("*.tensors"), key=lambda p: int(p.name.split(".")[1])):
        tensors = {}
        data = path.read_bytes()
        end = 0
        for kind, payload, end in spool.frames(data):  # noqa: B007
            if kind == spool.Kind.TENSOR:
                told = json.loads(payload)
                tensors[told["id"]] = told
            elif kind == spool.Kind.COLLECTIONS:
                found.collections.update(json.loads(payload))
            elif kind == spool.Kind.ROW:
                _, step, number, mode, state, *rest = spool.ROW.unpack(payload)
                names = (*spool.COUNTS, *spool.STATISTICS, *spool.DELTAS, "fingerprint")
                of = tensors[number]
                values = dict(zip(names, rest, strict=True))
                row = Row(step, mode, of["name"], of["role"], of["collections"], spool.STATES[state], values)
                found.rows.append(row)
            elif kind == spool.Kind.VALUES:
                _, step, number, _, what = spool.VALUES.unpack_from(payload)
                count = (len(payload) - spool.VALUES.size) // 8
                numbers = list(struct.unpack_from(f"<{count}d", payload, spool.VALUES.size))
                found.values[step, tensors[number]["name"], spool.Values(what).name.lower()] = numbers
        assert end == len(data)
    return found


def raw(path: Path) -> tuple[dict[str, str], dict[str, tuple[str, list[int], bytes]]]:
    """Read a safetensors file: its metadata, and type, sizes, bytes of each tensor."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    body = data[8 + size :]
    assert max((entry["data_offsets"][1] for entry in header.values()), default=0) == len(body)
    return metadata, {
        name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def near(one: float, other: float, relative: float = 1e-6) -> bool:
    """Whether two numbers agree; NaN agrees with NaN."""
    return (math.isnan(one) and math.isnan(other)) or math.isclose(
        one, other, rel_tol=relative, abs_tol=1e-30
    )
