"""Splits the time outside all known parts by function and what it waits for, from stack samples."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.grouping import coded, step_keys
from holter.analysis.intervals import inside, measure, union
from holter.analysis.loading.stacks import SampledFrame, frames
from holter.analysis.verdict.evidence import function_at
from holter.schema.table import NameCodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from holter.schema.table import Table

_MOSTLY = 0.5
"""A call with less than this share of its function's time is not named: the share of the function is told."""
_LOOP = 0.9
"""A function below which this share of the time lies holds the loop."""
_APART = 5.0
"""Calls in the function that holds the loop are told apart if one takes this percentage of the loop."""
DEVICE = "device"
"""What a call waits for that reads an array of a device."""
MIN_SAMPLES = 5
"""Fewer samples name nothing."""
_ITERATORS = (" [generator]", " [iterator]")
_GET = re.compile(r"(^|\.)get($| \()")
_WAITED_FOR = re.compile(r" ([<&]) ")
_READS = re.compile(r"^(o?np|numpy)\.(asarray|array)$")
"""Calls that wait within NumPy until a device has computed the array."""
_LINE = re.compile(r":\d+\)$")
_COLLECTION = "garbage collection"
_COMPREHENSION = re.compile(r"(\.<(genexpr|listcomp|setcomp|dictcomp)>)+$")
# What a call, or the innermost frame of a library, waits for. The first match decides.
_WAITS = (
    ("sleep", re.compile(r"(^|\.)sleep$")),
    (_COLLECTION, re.compile(r"^gc\.collect$")),
    ("fsync", re.compile(r"(^|\.)f(data)?sync$")),
    ("subprocess", re.compile(r"^(subprocess\.|os\.(system|popen|wait\w*)$)|\(subprocess\.py:")),
    ("queue", re.compile(r"\((queue|multiprocessing/queues)\.py:")),
    ("lock", re.compile(r"\(threading\.py:|(^|\.)(acquire|join)$|\(concurrent/futures/")),
    ("network", re.compile(r"\((socket|ssl|http/client|urllib/request|selectors)\.py:|(^|\.)recv$")),
    ("file", re.compile(r"^(open|os\.(read|write|stat|listdir|scandir))$|\.(read|readline|write|flush)$")),
    ("file", re.compile(r"\.(read|write)_(text|bytes)$")),
    ("input", re.compile(r"^input$")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OwnCode:
    """A function of the training that runs outside all known parts."""

    function: str
    """Its qualified name; `<module>` for the script itself."""
    file: str
    line: int
    """The line with most of its time."""
    pct: float
    """Percent of the loop."""
    calls: str
    """What it mostly calls, as its source names it; empty for its own work, and for several calls."""
    waits_in: str | None
    """sleep, file, fsync, network, subprocess, queue, lock, input, garbage collection or device; None: it
    works."""
    iterates: bool
    """The training's loop takes its items from it, or it waits for items of a queue: it loads data."""
    step: int
    """The step with most of its time."""
    step_share: float
    """Share of its time in that step, 0 to 1."""
    checkpoints: bool
    """It runs only in steps that write a checkpoint, and few steps do."""
    generator: bool = False
    inner: str | None = None
    """What an iterator calls and spends most of its time in, as `name (file:line)`."""
    producer: str | None = None
    """The thread or process that fills the queue it waits for, as `thread name`."""
    fills: bool = False
    """No other thread or process can be the one that it waits for."""
    produces: tuple[str, ...] = ()
    """That thread's function, and the one that it spends most time in, as `name (file:line)`."""
    holds_loop: bool = False
    """The loop runs in it, so that its share is only that of these calls, or of its own work."""
    samples: int = MIN_SAMPLES
    """How many samples saw it; fewer than `MIN_SAMPLES` say little about its share."""

    @property
    def place(self) -> str:
        """The function and its place, as `name (file:line)`."""
        return function_at(self.function, self.file, self.line)

    @property
    def text(self) -> str:
        """The call and its place: `time.sleep, called by stall (train.py:3)`."""
        if self.producer or (self.iterates and self.waits_in == "queue"):
            return self._waiting
        iterator = f"{'generator ' if self.generator else ''}{self.place}"
        if self.inner:
            iterator += f", mostly in {self.inner}"
        if self.calls and self.waits_in:
            return (
                f"{iterator}, in {self.calls}" if self.iterates else f"{self.calls}, called by {self.place}"
            )
        return iterator + (f", calling {self.calls}" if self.calls else "")

    @property
    def _waiting(self) -> str:
        """The wait, and what it waits for: the thread with its function, and where that spends its time."""
        queue = self.waits_in == "queue"
        mostly = f"; it spends its time in {self.produces[1]}" if self.produces[1:] else ""
        if self.iterates and self.producer and not queue:  # the iterator is that of a library
            works = f", which works in {self.produces[0]}" if self.produces else ""
            return f"the loop waits for {self.producer}{works}{mostly}"
        waits = f"{self.place} waits{' for a queue' if queue else ''}"
        if self.calls and not queue:
            waits = f"{self.calls}, called by {self.place}"
        if not self.producer:
            return f"{waits} ({self.calls})" if self.calls and queue else waits
        does = f" that {self.producer} fills" if queue and self.fills else f", while {self.producer} works"
        where = f" in {self.produces[0]}" if self.produces else ""
        return f"{waits}{does}{where}{mostly}"


def own_code(spans: Table, steps: Table, other_pct: float) -> list[OwnCode]:
    """Return the functions that take the time outside all known parts, the largest first.

    Args:
        spans: Table `spans`, with the phases loop_stack, loss, h2d and gc. Loss and h2d are written when they
            are over, so that the sampler does not see them.
        steps: Table `steps`, those that count.
        other_pct: Percent of the loop outside all known parts.

    Returns:
        Functions; their shares add up to `other_pct`. Empty with too few samples.
    """
    if not steps.rows or other_pct <= 0:
        return []
    # Samples of a look have a value: the part that was open.
    stacks = spans.where((spans["phase"] == "loop_stack") & np.isnan(spans["value"]))
    stacks = stacks.where(np.isin(step_keys(stacks), step_keys(steps)))
    stacks = stacks.where(~_inside(stacks, spans.where(np.isin(spans["phase"], ("loss", "h2d")))))
    if stacks.rows < MIN_SAMPLES:
        return []
    # A long job has many samples of few stacks.
    names, codes = coded(stacks["name"])
    parsed = [_parse(name) for name in names.tolist()]
    weights = stacks["duration"].astype(float)
    # All that the loop does is work of its function: what this calls has to be told apart.
    times = np.bincount(codes, weights)
    loop = _loop(parsed, times)
    calls: Counter[str] = Counter()
    for one, took in zip(parsed, times.tolist(), strict=True):
        calls[one.calls] += took if one.key[:2] == loop else 0
    if max(calls.values()) * other_pct < _APART * times.sum():
        loop = None
    keys = NameCodes()
    texts = ["\n".join(map(str, (*one.key, one.calls if one.key[:2] == loop else ""))) for one in parsed]
    group = keys.codes(texts)[codes]
    collects = np.array([sample.waits_in == _COLLECTION for sample in parsed])[codes]
    if collects.any():
        # A collection holds the interpreter lock: the sampler wakes after it, also in a line that follows.
        collected = np.where(collects, 0, _collected(stacks, spans))
        weights -= collected
        weights[collects] *= 1 + collected.sum() / weights[collects].sum()
    total = float(weights.sum())
    writes = steps["checkpoint"] > 0
    saving = np.isin(step_keys(stacks), step_keys(steps)[writes])
    seldom = float(writes.mean()) < 0.5
    result = []
    for number in range(len(keys)):
        rows = np.flatnonzero(group == number)
        mine = weights[rows]
        took = float(mine.sum())
        if not took:
            continue
        top = _top(parsed, codes[rows], mine)
        alike = np.array([one.calls == top.calls for one in parsed])[codes[rows]]
        named = float(mine[alike].sum()) >= _MOSTLY * took
        numbers, places = np.unique(stacks["step"][rows], return_inverse=True)
        by_step = np.bincount(places, mine)
        function, file, iterates = top.key
        inner = _heaviest(parsed, codes[rows], mine, lambda one: one.inner)
        filled = _heaviest(parsed, codes[rows], mine, lambda one: one.producer)
        result.append(
            OwnCode(
                function=function,
                file=file,
                line=top.line,
                pct=other_pct * took / total,
                calls=top.calls if named else "",
                waits_in=top.waits_in if named else None,
                iterates=iterates,
                step=int(numbers[by_step.argmax()]),
                step_share=float(by_step.max()) / took,
                checkpoints=seldom and float(mine[saving[rows]].sum()) >= 0.9 * took,
                generator=top.generator,
                inner=inner[0] if inner else None,
                producer=filled[1] if filled else None,
                fills=filled[:1] == ("<",),
                produces=filled[2:],
                holds_loop=(function, file) == loop,
                samples=len(rows),
            )
        )
    return sorted(result, key=lambda one: (-one.pct, one.place))


def iterating(own: list[OwnCode]) -> float:
    """Return the share of the loop's iterators in the time outside all known parts, 0 to 1."""
    total = sum(one.pct for one in own)
    return sum(one.pct for one in own if one.iterates) / total if total else 0.0


def reading(own: list[OwnCode], hidden_pct: float) -> list[OwnCode]:
    """Mark the functions that wait for the device by reading an array.

    Args:
        own: Result of `own_code`.
        hidden_pct: Percent of the loop in which the device computes and no recorded part waits for it.
    """
    reads = [not one.iterates and _READS.search(one.calls) is not None for one in own]
    taken = sum(one.pct for one, waits in zip(own, reads, strict=True) if waits)
    if _MOSTLY * taken > hidden_pct:  # it converts more than it waits
        return own
    return [replace(one, waits_in=DEVICE) if waits else one for one, waits in zip(own, reads, strict=True)]


def awaiting(own: list[OwnCode]) -> float:
    """Return the share of waits for the device in the time outside all known parts, 0 to 1."""
    total = sum(one.pct for one in own)
    return sum(one.pct for one in own if one.waits_in == DEVICE) / total if total else 0.0


def divided(split: Mapping[str, float], iterating: float, awaiting: float = 0.0) -> dict[str, float]:
    """Return a breakdown in which the loop's iterators load data and waits for the device compute.

    Args:
        split: Part → time or share.
        iterating: Share of the loop's iterators in `other`, 0 to 1.
        awaiting: Share of waits for the device in `other`, 0 to 1.
    """
    found = dict(split)
    for part, share in (("data_loading", iterating), ("compute", awaiting)):
        if share:
            found[part] += split["other"] * share
            found["other"] -= split["other"] * share
    return found


def sampled_line(name: str) -> tuple[str, str]:
    """Return the innermost line of the training in a sample, as `name (file:line)`, and what it calls."""
    found = _parse(name)
    function, file, _ = found.key
    return f"{function} ({file}:{found.line})", found.calls


@dataclass(frozen=True, slots=True)
class _Sample:
    key: tuple[str, str, bool]
    line: int
    calls: str
    waits_in: str | None
    generator: bool = False
    inner: tuple[str, ...] = ()
    """The innermost function below an iterator."""
    producer: tuple[str, ...] = ()
    """`<`, or `&` for one of several threads; its name, its function, and the innermost one."""
    functions: tuple[tuple[str, str], ...] = ()
    """Name and file of all functions, the outermost first."""


def _parse(name: str) -> _Sample:
    """Read `main (a.py:9);rows (a.py:4) [generator] > q.get > get (queue.py:1) < thread t;fill (a.py:7)`."""
    stacked, sign, other = [*_WAITED_FOR.split(name, maxsplit=1), "", ""][:3]
    path, *below = stacked.split(" > ")
    texts = path.split(";")
    iterator = next((at for at, text in enumerate(texts) if text.endswith(_ITERATORS)), None)
    generator = iterator is not None and texts[iterator].endswith(_ITERATORS[0])
    stack = frames(";".join(text.removesuffix(_ITERATORS[0]).removesuffix(_ITERATORS[1]) for text in texts))
    chosen = stack[-1 if iterator is None else iterator] if stack else SampledFrame(name, name, "")
    match = _LINE.search(chosen.text)
    line = int(match[0][1:-1]) if match else 0
    calls = next((text for text in below if not _LINE.search(text)), "")
    inner = (stack[-1].text,) if iterator is not None and iterator < len(stack) - 1 else ()
    waits = next((kind for kind, form in _WAITS for text in below if form.search(text)), None)
    producer = (sign, *other.split(";")) if other else ()
    if producer and waits is None and calls.endswith(".get"):
        waits = "queue"  # a queue without Python frames
    takes = waits == "queue" and any(_GET.search(text) for text in below)
    iterates = iterator is not None or takes
    # A comprehension is work of the function around it.
    function = _COMPREHENSION.sub("", chosen.qualname)
    functions = tuple((one.qualname, one.file) for one in stack)
    return _Sample(
        (function, chosen.file, iterates), line, calls, waits, generator, inner, producer, functions
    )


def _loop(parsed: list[_Sample], times: NDArray[Any]) -> tuple[str, str] | None:
    """Return name and file of the innermost function below which nearly all of the time lies, if any."""
    found = None
    for depth in range(max(len(one.functions) for one in parsed)):
        by_function: Counter[tuple[str, str]] = Counter()
        for one, took in zip(parsed, times.tolist(), strict=True):
            if depth < len(one.functions):
                by_function[one.functions[depth]] += took
        function, took = by_function.most_common(1)[0]
        if took < _LOOP * times.sum():
            break
        found = function
    return found


def _top(
    parsed: list[_Sample], codes: NDArray[np.signedinteger[Any]], weights: NDArray[np.float64]
) -> _Sample:
    """Return the usual sample of the line with most of the time of some samples."""
    times = np.bincount(codes, weights, len(parsed)).tolist()
    lines: Counter[int] = Counter()
    for code in np.unique(codes).tolist():
        lines[parsed[code].line] += times[code]
    line = lines.most_common(1)[0][0]
    return max((times[at], -at, one) for at, one in enumerate(parsed) if one.line == line and times[at])[2]


def _heaviest(
    parsed: list[_Sample],
    codes: NDArray[np.signedinteger[Any]],
    weights: NDArray[np.float64],
    of: Callable[[_Sample], tuple[str, ...]],
) -> tuple[str, ...]:
    """Return what most of the time of some samples has in common; empty if that is nothing.

    Lines of the same function are added up; the heaviest line is returned.
    """
    times = np.bincount(codes, weights)
    by_function: dict[tuple[str, ...], list[tuple[float, tuple[str, ...]]]] = {}
    for code in np.flatnonzero(times).tolist():
        found = of(parsed[code])
        key = tuple(_LINE.sub("", text) for text in found)
        by_function.setdefault(key, []).append((float(times[code]), found))
    heaviest = max(by_function.values(), key=lambda group: sum(took for took, _ in group))
    return max(heaviest)[1]


def _collected(stacks: Table, spans: Table) -> NDArray[np.int64]:
    """Return how much of each sample's time lies in garbage collections of its rank, ns."""
    found = np.zeros(stacks.rows, dtype=np.int64)
    pauses = spans.where((spans["phase"] == "gc") & (spans["worker"] == -1))
    for rank in np.unique(pauses["rank"]).tolist():
        mine, spent = stacks["rank"] == rank, pauses.where(pauses["rank"] == rank)
        sampled = stacks.where(mine)
        covered = union(spent["time"], spent["time"] + spent["duration"])
        found[mine] = measure(covered, sampled["time"], sampled["time"] + sampled["duration"])
    return found


def _inside(stacks: Table, known: Table) -> NDArray[np.bool_]:
    """Return which samples were taken, at their end, inside one of the spans of their rank."""
    found = np.zeros(stacks.rows, dtype=bool)
    for rank in np.unique(stacks["rank"]).tolist():
        mine, spans = stacks["rank"] == rank, known.where(known["rank"] == rank)
        covered = union(spans["time"], spans["time"] + spans["duration"])
        found[mine] = inside(covered, (stacks["time"] + stacks["duration"])[mine])
    return found
