"""Lists the files of a spool by process, thread and kind."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holter.agent.drain.ranks import rank_name
from holter.schema import record, windows

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path


MAX_THREAD = 2**15 - 1


@dataclass(slots=True)
class Listing:
    """The files of a spool by kind; unknown files are left out."""

    spool: Path
    journals: list[str] = field(default_factory=list)
    """Keys of processes."""
    heads: list[tuple[str, int]] = field(default_factory=list)
    """Process and thread."""
    segments: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """Numbers of the segments of each thread, in order."""
    frames: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of the files of tensor frames of each process, in order."""
    tensors: dict[str, list[str]] = field(default_factory=dict)
    """Names of the files of whole tensors of each process, in order."""

    @classmethod
    def of(cls, spool: Path, *, without: Container[str] = ()) -> Listing:
        """List a spool, `without` the records of some processes; a missing spool has no files."""
        found = cls(spool)
        try:
            names = os.listdir(spool)
        except OSError:
            return found
        for name in names:
            key, *rest = name.split(".")
            if rest[1:] == ["tensors"] and rest[0].isdecimal():
                found.frames.setdefault(key, []).append(int(rest[0]))
            elif rest[1:] == ["safetensors"]:
                found.tensors.setdefault(key, []).append(name)
            if key in without:
                continue
            numbers = [int(word) for word in rest[:-1] if word.isdecimal()]
            if numbers and numbers[0] > MAX_THREAD:
                continue
            if rest == ["journal"]:
                found.journals.append(key)
            elif len(rest) == 2 and rest[1] == "head" and len(numbers) == 1:
                found.heads.append((key, numbers[0]))
            elif len(rest) == 3 and rest[2] == "seg" and len(numbers) == 2:
                found.segments.setdefault((key, numbers[0]), []).append(numbers[1])
        for numbers in (*found.segments.values(), *found.frames.values()):
            numbers.sort()
        for raw in found.tensors.values():
            raw.sort()
        return found

    def paths(self, key: str) -> list[Path]:
        """Return the files of a process, except its stacks, which may still be read."""
        names = [record.journal_name(key), windows.orders_name(key), rank_name(key)]
        names += [record.head_name(key, thread) for owner, thread in self.heads if owner == key]
        for (owner, thread), numbers in self.segments.items():
            if owner == key:
                names += [record.segment_name(key, thread, number) for number in numbers]
        return [self.spool / name for name in names]
