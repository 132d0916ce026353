"""Stacks of Python code as a file of speedscope, of the training thread and of data loaders' workers."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from holter.analysis.python_functions import place

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holter.report.exports import Chosen
    from holter.schema.table import Table
    from holter.store.trial import Trial

ABOUT = "stacks of Python code for speedscope.app"
SUFFIX = ".speedscope.json"
SHOW = "npx speedscope {output}, or drop it on https://www.speedscope.app"
NEEDS = "stacks of Python code (profile some steps: --python pyinstrument)"
SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class _File:
    """Frames by number, and profiles over them."""

    def __init__(self) -> None:
        self._frames: dict[str, int] = {}
        self.profiles: list[dict[str, Any]] = []
        self.written = 0

    def add(self, name: str, stacks: Iterable[tuple[list[str], int]]) -> None:
        """Add one profile: stacks, outermost function first, each with its nanoseconds."""
        samples, weights = [], []
        for stack, spent in stacks:
            if stack and spent > 0:
                samples.append([self._frames.setdefault(frame, len(self._frames)) for frame in stack])
                weights.append(spent)
        if samples:
            self.written += len(samples)
            self.profiles.append(
                {
                    "type": "sampled",
                    "name": name,
                    "unit": "nanoseconds",
                    "startValue": 0,
                    "endValue": sum(weights),
                    "samples": samples,
                    "weights": weights,
                }
            )

    def document(self, name: str) -> dict[str, Any]:
        return {
            "$schema": SCHEMA,
            "name": name,
            "exporter": "holter",
            "activeProfileIndex": 0,
            "shared": {"frames": [_frame(frame) for frame in self._frames]},
            "profiles": self.profiles,
        }


def write(trial: Trial, chosen: Chosen, output: Path) -> int:
    """Write one file with a profile for each rank and data-loader worker; returns how many stacks are in it.

    They are in the order of time. What cProfile found has no stacks; the format `pstats` is for that.
    """
    part: dict[str, Any] = {"start_ns": chosen.start_ns, "end_ns": chosen.end_ns}

    def table(name: str, condition: str | None = None) -> Table:
        terms = [f"({term})" for term in (condition, chosen.where(name)) if term]
        return trial.table(name, where=" AND ".join(terms) or None, **part)

    file = _File()
    sampled, workers = table("python_stacks"), table("spans", "phase = 'stack'")
    for rank in sorted(set(sampled["rank"].tolist())):
        mine = sampled.where(sampled["rank"] == rank)
        file.add(f"rank {rank}: sampled", _stacks(mine["stack"], mine["self_time"]))
    by_worker: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, key in enumerate(zip(workers["rank"].tolist(), workers["worker"].tolist(), strict=True)):
        by_worker[key].append(at)
    for (rank, worker), rows in sorted(by_worker.items()):
        who = f"loader worker {worker}" if worker >= 0 else "loading"
        file.add(f"rank {rank}: {who}", _stacks(workers["name"][rows], workers["duration"][rows]))
    if file.written:
        with output.open("w", encoding="utf-8") as out:
            json.dump(file.document(trial.folder.name), out, separators=(",", ":"))
    return file.written


def _stacks(names: Any, durations: Any) -> Iterable[tuple[list[str], int]]:
    for name, spent in zip(names.tolist(), durations.tolist(), strict=True):
        yield [frame for frame in name.split(";") if frame], spent


def _frame(name: str) -> dict[str, Any]:
    file, line, function = place(name)
    return {"name": name} if file == "~" else {"name": function, "file": file, "line": line}
