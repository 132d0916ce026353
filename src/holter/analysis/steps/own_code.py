"""Splits the time outside all known parts by function and what it waits for, from stack samples."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.loading.stacks import SampledFrame, frames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from holter.schema.table import Table

MIN_SAMPLES = 5
"""Fewer samples name nothing."""
_ITERATOR = " [iterator]"
_LINE = re.compile(r":\d+\)$")
# What a call, or the innermost frame of a library, waits for. The first match decides.
_WAITS = (
    ("sleep", re.compile(r"(^|\.)sleep$")),
    ("garbage collection", re.compile(r"^gc\.collect$")),
    ("fsync", re.compile(r"(^|\.)f(data)?sync$")),
    ("subprocess", re.compile(r"^(subprocess\.|os\.(system|popen|wait\w*)$)|\(subprocess\.py:")),
    ("queue", re.compile(r"\((queue|multiprocessing/queues)\.py:")),
    ("lock", re.compile(r"\(threading\.py:|(^|\.)(acquire|join)$|\(concurrent/futures/")),
    ("network", re.compile(r"\((socket|ssl|http/client|urllib/request|selectors)\.py:|(^|\.)recv$")),
    ("file", re.compile(r"^(open|os\.(read|write|stat|listdir|scandir))$|\.(read|readline|write|flush)$")),
    ("input", re.compile(r"^input$")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OwnCode:
    """A function of the training that runs outside all known parts."""

    function: str
    """Its qualified name; `<module>` for the script itself."""
    file: str
    line: int
    """The line where it spends most of its time."""
    pct: float
    """Percent of the loop."""
    calls: str
    """What it calls there, as its source names it; empty for its own work."""
    waits_in: str | None
    """sleep, file, fsync, network, subprocess, queue, lock, input or garbage collection; None: it works."""
    iterates: bool
    """The loop asks it for its next item: it loads data."""
    step: int
    """The step with most of its time."""
    step_share: float
    """Share of its time in that step, 0 to 1."""
    checkpoints: bool
    """It runs only in steps that write a checkpoint, and few steps do."""

    @property
    def place(self) -> str:
        """The function and its place, as `name (file:line)`."""
        return f"{self.function} ({self.file}:{self.line})"

    @property
    def text(self) -> str:
        """What runs and where: `time.sleep, called by stall (train.py:3)`."""
        kind = "generator " if self.iterates else ""
        if self.calls and self.waits_in:
            return f"{kind}{self.place}, in {self.calls}" if kind else f"{self.calls}, called by {self.place}"
        return f"{kind}{self.place}" + (f", calling {self.calls}" if self.calls else "")


def own_code(spans: Table, steps: Table, other_pct: float) -> list[OwnCode]:
    """Return the functions that take the time outside all known parts, the largest first.

    Args:
        spans: Table `spans`, with the phases loop_stack, loss and h2d. The last two are written when they are
            over, so that the sampler does not see them.
        steps: Table `steps`, those that count.
        other_pct: Percent of the loop outside all known parts.

    Returns:
        Functions; their shares add up to `other_pct`. Empty with too few samples.
    """
    if not steps.rows or other_pct <= 0:
        return []
    stacks = spans.where(spans["phase"] == "loop_stack")
    stacks = stacks.where(np.isin(_keys(stacks), _keys(steps)))
    stacks = stacks.where(~_inside(stacks, spans.where(np.isin(spans["phase"], ("loss", "h2d")))))
    if stacks.rows < MIN_SAMPLES:
        return []
    saving = np.isin(_keys(stacks), _keys(steps)[steps["checkpoint"] > 0])
    seldom = float((steps["checkpoint"] > 0).mean()) < 0.5
    weights = stacks["duration"].astype(float)
    groups: dict[tuple[str, str, bool], list[int]] = defaultdict(list)
    parsed = [_parse(name) for name in stacks["name"].tolist()]
    for at, found in enumerate(parsed):
        groups[found.key].append(at)
    total = float(weights.sum())
    result = []
    for (function, file, iterates), rows in groups.items():
        mine = weights[rows]
        took = float(mine.sum())
        top = _heaviest([(parsed[at].line, parsed[at].calls, parsed[at].waits_in) for at in rows], mine)
        step, in_step = _heaviest_step(stacks["step"][rows], mine)
        result.append(
            OwnCode(
                function=function,
                file=file,
                line=top[0],
                pct=other_pct * took / total,
                calls=top[1],
                waits_in=top[2],
                iterates=iterates,
                step=step,
                step_share=in_step / took,
                checkpoints=seldom and float(mine[saving[rows]].sum()) >= 0.9 * took,
            )
        )
    return sorted(result, key=lambda one: (-one.pct, one.place))


def divided(split: Mapping[str, float], own: list[OwnCode]) -> dict[str, float]:
    """Return a breakdown in which the time of the loop's iterators is data loading and no longer `other`."""
    total = sum(one.pct for one in own)
    iterated = sum(one.pct for one in own if one.iterates)
    if not iterated:
        return dict(split)
    moved = split["other"] * iterated / total
    return {**split, "data_loading": split["data_loading"] + moved, "other": split["other"] - moved}


@dataclass(frozen=True, slots=True)
class _Sample:
    key: tuple[str, str, bool]
    line: int
    calls: str
    waits_in: str | None


def _parse(name: str) -> _Sample:
    """Read `train (a.py:9);stream (a.py:4) [iterator] > time.sleep > wait (threading.py:327)`."""
    path, *below = name.split(" > ")
    texts = path.split(";")
    iterator = next((at for at, text in enumerate(texts) if text.endswith(_ITERATOR)), None)
    stack = frames(";".join(text.removesuffix(_ITERATOR) for text in texts))
    chosen = stack[-1 if iterator is None else iterator] if stack else SampledFrame(name, name, "")
    match = _LINE.search(chosen.text)
    line = int(match[0][1:-1]) if match else 0
    calls = next((text for text in below if not _LINE.search(text)), "")
    if iterator is not None and iterator < len(stack) - 1 and not calls:
        calls = stack[iterator + 1].function
    waits = next((kind for kind, form in _WAITS for text in below if form.search(text)), None)
    return _Sample((chosen.qualname, chosen.file, iterator is not None), line, calls, waits)


def _keys(table: Table) -> NDArray[np.int64]:
    """Return a number for each row that only its rank and step have."""
    return table["rank"].astype(np.int64) << 40 | table["step"].astype(np.int64)


def _inside(stacks: Table, known: Table) -> NDArray[np.bool_]:
    """Return which samples were taken, at their end, inside one of the spans of their rank."""
    found = np.zeros(stacks.rows, dtype=bool)
    taken = stacks["time"] + stacks["duration"]
    for rank in np.unique(stacks["rank"]).tolist():
        mine, spans = stacks["rank"] == rank, known.where(known["rank"] == rank)
        if not spans.rows:
            continue
        order = np.argsort(spans["time"], kind="stable")
        begin, end = spans["time"][order], (spans["time"] + spans["duration"])[order]
        at = np.searchsorted(begin, taken[mine], side="right") - 1
        found[mine] = (at >= 0) & (taken[mine] <= end[np.maximum(at, 0)])
    return found


def _heaviest(
    kinds: list[tuple[int, str, str | None]], weights: NDArray[np.float64]
) -> tuple[int, str, str | None]:
    found: dict[tuple[int, str, str | None], float] = defaultdict(float)
    for kind, weight in zip(kinds, weights.tolist(), strict=True):
        found[kind] += weight
    return max(found, key=lambda kind: found[kind])


def _heaviest_step(steps: NDArray[np.int64], weights: NDArray[np.float64]) -> tuple[int, float]:
    numbers, places = np.unique(steps, return_inverse=True)
    sums = np.bincount(places, weights)
    return int(numbers[sums.argmax()]), float(sums.max())
