"""Divides stack samples of a PyTorch training into forward, backward and the other parts of a step.

For processes that were started without holter: nothing marks their steps, but the frames of torch in their
stacks tell what they do.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holter.analysis.loading.stacks import frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.analysis.loading.stacks import SampledFrame
    from holter.schema.table import Table

LIBRARY = re.compile(r"(^|/)(site|dist)-packages/|(^|/)lib/python3[^/]*/|^<")
"""Files of installed packages and of Python."""
PROCESS = re.compile(r"process (?P<pid>\d+) ?(?P<name>.*)")
"""The first frame of a stack that was sampled from outside."""
LEAST_SAMPLES = 5
LEAST_SHARE = 0.1
"""A process trains if at least this share of its samples is in a part of a step."""
_THREAD = "thread "

_STARTING = re.compile(r"^(_find_and_load|_handle_fromlist|_call_with_frames_removed)$")
_PARTS: tuple[tuple[str, str, str], ...] = (
    ("checkpoint", r"torch/serialization\.py$", r"^(save|_save|_legacy_save)$"),
    ("checkpoint", r"torch/distributed/checkpoint/|safetensors/torch\.py$", r"^(save|async_save|save_\w+)$"),
    ("compile", r"torch/(_inductor/|_dynamo/convert_frame\.py$)", r""),
    ("data_loading", r"torch/utils/data/dataloader\.py$", r"^(__next__|__iter__|_next_data|_get_iterator)$"),
    (
        "backward",
        r"torch/autograd/(__init__|graph|function)\.py$|torch/_tensor\.py$",
        r"^_?(engine_run_)?backward$",
    ),
    ("communication", r"torch/distributed/(distributed_c10d|_functional_collectives)\.py$", r""),
    ("optimizer", r"torch/(optim/|nn/utils/clip_grad\.py$|amp/grad_scaler\.py$)", r""),
    ("loss", r"torch/nn/modules/loss\.py$", r""),
    ("loss", r"torch/nn/functional\.py$", r"(_loss|cross_entropy|_nll)"),
    ("forward", r"torch/nn/modules/module\.py$", r"^(_call_impl|_wrapped_call_impl)$"),
    ("forward", r"torch/(nn/functional|_dynamo/eval_frame)\.py$", r""),
)
"""Part, file and function of the frames that tell it; the first line that matches a frame counts."""
_COMPILED = tuple((part, re.compile(file), re.compile(name)) for part, file, name in _PARTS)
_INSIDE = {"optimizer": ("forward", "loss", "backward", "data_loading"), "forward": ("loss", "compile")}
"""A part in which others may run: a closure in the optimizer's step, a loss that is a module."""
_WORKER_FILE = re.compile(r"torch/utils/data/_utils/worker\.py$")
_FETCH_FILE = re.compile(r"torch/utils/data/_utils/fetch\.py$")


@dataclass(frozen=True, slots=True)
class TrainingPart:
    """A part of the loop, with its percentage of the samples."""

    part: str
    pct: float
    where: str
    """The line of the user's code that most samples of the part were called from; empty without one."""
    inner: str = ""
    """The function of the user's code in which most of them were, if it is another one."""
    inner_pct: float = 0.0
    """Percentage of the part's samples that were in it."""


@dataclass(frozen=True, slots=True)
class LoaderWorkers:
    """The workers of data loaders."""

    count: int
    busy_pct: float
    """Percentage of their time in which they built batches."""
    inner: str
    """The function of the user's code that took most of it; empty without one."""


@dataclass(frozen=True, slots=True)
class TrainingParts:
    """What the training threads of a job did, by stack samples."""

    samples: int
    processes: int
    parts: list[TrainingPart]
    """The largest first; `other` is everything outside of known parts."""
    workers: LoaderWorkers | None = None

    def share(self, *parts: str) -> float:
        """Return the percentage of some parts together."""
        return sum(one.pct for one in self.parts if one.part in parts)

    def find(self, part: str) -> TrainingPart | None:
        """Return a part; None if no sample was in it."""
        return next((one for one in self.parts if one.part == part), None)


@dataclass(slots=True)
class _Thread:
    """The samples of one thread, by part."""

    counts: Counter[str] = field(default_factory=Counter)
    where: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    inner: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    fetching: Counter[str] = field(default_factory=Counter)
    works: bool = False
    """Whether it belongs to a worker of a data loader."""

    @property
    def known(self) -> int:
        """Samples in parts of a step."""
        return self.counts.total() - self.counts["other"]


def part_of(stack: Sequence[SampledFrame]) -> tuple[str, int]:
    """Return the part of a step that a stack is in, and the place of the frame that tells it.

    The outermost part counts: a model inside of a data set's transforms is data loading. `other` comes with
    the length of the stack.
    """
    found, place = "other", len(stack)
    for at, frame in enumerate(stack):
        part = _of_frame(frame)
        if part and (found == "other" or part in _INSIDE.get(found, ())):
            found, place = part, at
    return found, place


def training_parts(rows: Table) -> TrainingParts | None:
    """Divide table `python_stacks`; None without a training that was sampled from outside."""
    threads: defaultdict[tuple[str, str], _Thread] = defaultdict(_Thread)
    for text, samples in zip(rows["stack"].tolist(), rows["samples"].tolist(), strict=True):
        if (match := PROCESS.match(text.partition(";")[0])) is None:
            continue
        stack = frames(text)[1:]
        name = ""
        if stack and stack[0].text.startswith(_THREAD):
            name, stack = stack[0].text, stack[1:]
        _count(threads[match["pid"], name], stack, samples)
    of_process: dict[str, _Thread] = {}
    for (pid, _), thread in threads.items():
        if pid not in of_process or thread.known > of_process[pid].known:
            of_process[pid] = thread
    trainers = [one for one in of_process.values() if not one.works and _trains(one)]
    if not trainers:
        return None
    whole = sum(one.counts.total() for one in trainers)
    counts = _summed(one.counts for one in trainers)
    parts = [
        _part(name, 100 * count / whole, [one for one in trainers if one.counts[name]])
        for name, count in counts.most_common()
    ]
    return TrainingParts(
        whole, len(trainers), parts, _workers([one for one in threads.values() if one.works])
    )


def _trains(thread: _Thread) -> bool:
    return thread.known >= max(LEAST_SAMPLES, LEAST_SHARE * thread.counts.total())


def _count(thread: _Thread, stack: Sequence[SampledFrame], samples: int) -> None:
    if any(_STARTING.match(frame.function) for frame in stack):
        return  # imports are the start of the program
    if any(_WORKER_FILE.search(frame.file) for frame in stack):
        thread.works = True
        fetch = next((at for at, frame in enumerate(stack) if _FETCH_FILE.search(frame.file)), None)
        thread.counts["fetch" if fetch is not None else "other"] += samples
        if fetch is not None and (own := _innermost(stack[fetch:])):
            thread.fetching[own] += samples
        return
    part, place = part_of(stack)
    thread.counts[part] += samples
    if outer := _innermost(stack[:place]):
        thread.where[part][outer] += samples
    if inner := _innermost(stack[place:]):
        thread.inner[part][inner] += samples


def _part(name: str, share: float, threads: list[_Thread]) -> TrainingPart:
    where = _summed(one.where[name] for one in threads)
    inner = _summed(one.inner[name] for one in threads)
    count = sum(one.counts[name] for one in threads)
    functions = _by_function(inner)
    most, number = functions.most_common(1)[0] if functions else ("", 0)
    return TrainingPart(name, share, where.most_common(1)[0][0] if where else "", most, 100 * number / count)


def _workers(threads: list[_Thread]) -> LoaderWorkers | None:
    whole = sum(one.counts.total() for one in threads)
    if not whole:
        return None
    fetching = _by_function(_summed(one.fetching for one in threads))
    inner = fetching.most_common(1)[0][0] if fetching else ""
    return LoaderWorkers(len(threads), 100 * sum(one.counts["fetch"] for one in threads) / whole, inner)


def _by_function(lines: Counter[str]) -> Counter[str]:
    """Add up lines of one function; it is named with the line that was seen most."""
    of: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text, count in lines.items():
        of[text.rpartition(":")[0]][text] += count
    return Counter({one.most_common(1)[0][0]: one.total() for one in of.values()})


def _summed(counters: Iterable[Counter[str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in counters:
        found.update(one)
    return found


def _innermost(stack: Sequence[SampledFrame]) -> str:
    """Return the innermost frame of the user's own code."""
    return next((one.text for one in reversed(stack) if one.file and not LIBRARY.search(one.file)), "")


def _of_frame(frame: SampledFrame) -> str:
    if not LIBRARY.search(frame.file):
        return ""
    for part, file, name in _COMPILED:
        if file.search(frame.file) and name.search(frame.function):
            return part
    return ""
