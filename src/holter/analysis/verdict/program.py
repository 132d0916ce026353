"""Describes a program that took no steps: what it used, where it spent its time, and what repeats in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.events import details
from holter.analysis.host.training_parts import training_parts
from holter.analysis.machine.periods import period
from holter.analysis.machine.utilization import series
from holter.analysis.verdict.evidence import Evidence, counted, pct, took

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.analysis.host.training_parts import TrainingParts
    from holter.analysis.machine.periods import Period
    from holter.schema.table import Table

NAMED = 10.0
"""Functions are named from this percentage of the samples on."""
_FULL = 0.85
_IDLE = 0.2
_WAITS = 20.0
_MIN_SAMPLED_S = 1.0
_MOST = 5
_SIGNALS = {
    "cpu": "its CPU use",
    "faults": "its page faults",
    "read": "its reads",
    "written": "its writes",
    "children": "the CPU time of its child processes",
    "gpu": "the use of the GPUs",
}
"""Counter → what it is, in the order of preference."""
_BETTER = 0.1
"""A later counter is preferred only if its autocorrelation is larger by this much."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A period that was estimated from readings; it may be a step of the program."""

    seconds: float
    strength: float
    cycles: int
    signal: str

    @property
    def text(self) -> str:
        """The period and its origin, for people."""
        how_often = f"about every {took(self.seconds)} ({1 / self.seconds:.3g} a second)"
        found = f"{counted(self.cycles, 'repetition')} of {_SIGNALS[self.signal]}"
        return f"something repeats {how_often}; estimated from {found}, correlation {self.strength:.2f}"


@dataclass(frozen=True, slots=True)
class Program:
    """A command without steps. Times in seconds."""

    name: str
    """The process that used most CPU time."""
    elapsed_s: float
    cpu_s: float
    cores: float
    """Cores that the job may use."""
    processes: list[Mapping[str, Any]] = field(default_factory=list)
    """The largest first."""
    count: int = 0
    functions: list[tuple[str, float]] = field(default_factory=list)
    """The functions of the process that used most CPU time, and their percentages of its samples."""
    sampled_s: float = 0.0
    core_wait_pct: float | None = None
    """Percentage of the time that its main thread was ready to run without a core."""
    gpu_pct: float | None = None
    repeats: Repetition | None = None
    sampling_pct: float = 0.0
    """Percentage of a core that its Python processes took their samples with."""
    attached: bool = False
    """Whether it was started without holter, and is read from outside."""
    training: TrainingParts | None = None
    """The parts of its loop, if it trains with PyTorch and its stacks were sampled from outside."""

    @property
    def python(self) -> bool:
        """Whether it is a Python program."""
        return bool(self.processes and self.processes[0].get("python"))

    @property
    def cores_used(self) -> float:
        """Mean number of cores that the job kept busy."""
        return self.cpu_s / self.elapsed_s

    @property
    def sentence(self) -> str:
        """What the program does, in one sentence."""
        used, cores = self.cores_used, f"{self.cores:g}"
        waits = (self.core_wait_pct or 0.0) >= _WAITS
        whole = round(used)
        if used < _IDLE:
            does = f"{'gets' if waits else 'uses'} only {pct(100 * used)} of a core"
        elif whole >= 1 and abs(used - whole) <= 1 - _FULL:
            does = f"computes on {whole} of {cores} cores"
        else:
            does = f"computes on {used:.1f} of {cores} cores (mean)"
        parts = [f"{self.name} {does}"]
        if self.gpu_pct is not None:
            parts.append(f"the GPUs are busy {pct(self.gpu_pct)} (median)")
        if waits:
            parts.append(f"it waits {pct(self.core_wait_pct or 0.0)} of the time for a free core")
        if (
            self.training is None
            and (named := [one for one in self.functions if one[1] >= NAMED][:2])
            and self.processes
        ):
            first, *more = (f"{pct(share)} of the time in {_place(name)}" for name, share in named)
            parts.append(" and ".join([first, *(text.replace(" of the time", "") for text in more)]))
        return "; ".join(parts) + "."

    def evidence(self) -> Iterator[Evidence]:
        """Yield the numbers behind the sentence."""
        for name, share in self.functions[2:]:  # the sentence names the first
            if share >= NAMED:
                text = f"{_place(name)} takes {pct(share)} of the time of {self.name} (stack samples)"
                yield Evidence(text, "program.function", share, None, _place(name))
        if self.count > 1:
            others = ", ".join(
                f"{one['name']} {took(one['cpu_s'] + one['children_s'])}" for one in self.processes[:_MOST]
            )
            yield Evidence(
                f"{counted(self.count, 'process', 'processes')}; CPU time: {others}",
                "program.processes",
                float(self.count),
            )
        yield Evidence(
            f"the job used {took(self.cpu_s)} of CPU time in {took(self.elapsed_s)}",
            "program.cores",
            self.cores_used,
            self.cores,
        )


def program(events: Table, samples: Table | None = None, stacks: Table | None = None) -> Program | None:
    """Return what is known of a command that took no steps; None without its facts.

    Args:
        events: Table `events`.
        samples: Table `samples`.
        stacks: Table `python_stacks`.
    """
    told = [detail for _, detail in details(events, "program")]
    if not told or not told[-1].get("elapsed_s") or not told[-1].get("processes"):
        return None
    last = told[-1]
    processes = last["processes"]
    busiest = processes[0]
    told_stacks = {one["pid"]: one for one in last.get("stacks", ())}
    sampled = told_stacks.get(busiest["pid"])
    if sampled is None or sampled["sampled_s"] < _MIN_SAMPLED_S:
        # A script that only waits for its workers uses less CPU time than they do.
        python = [one for one in processes if one["pid"] in told_stacks]
        sampled = told_stacks[python[0]["pid"]] if python and python[0] is busiest else None
    functions, whole = [], 0.0
    if sampled is not None and sampled["sampled_s"] >= _MIN_SAMPLED_S:
        whole = sampled["sampled_s"]
        functions = [(one["name"], 100 * one["seconds"] / whole) for one in sampled["functions"][:_MOST]]
    wait = busiest.get("core_wait_s")
    gpus = _gpus(samples)
    return Program(
        name=busiest["name"],
        elapsed_s=last["elapsed_s"],
        cpu_s=last["cpu_s"],
        cores=last["cores"],
        processes=processes,
        count=last["count"],
        functions=functions,
        sampled_s=whole,
        core_wait_pct=None if wait is None else min(100 * wait / last["elapsed_s"], 100.0),
        gpu_pct=float(np.median(np.concatenate(gpus))) if gpus else None,
        repeats=_repeats(events, samples),
        sampling_pct=100 * last.get("sampling_s", 0.0) / last["elapsed_s"],
        attached=bool(last.get("attached")),
        training=training_parts(stacks) if stacks is not None and last.get("attached") else None,
    )


def _repeats(events: Table, samples: Table | None) -> Repetition | None:
    """Return the clearest repetition in the newest burst of readings that has one."""
    for _, burst in reversed(list(details(events, "pulse"))):
        found: Repetition | None = None
        for signal in _SIGNALS:
            values = burst.get("grown", {}).get(signal)
            if values:
                one = period(np.array(values, dtype=np.float64), burst["interval_ns"] / 1e9)
                if one and (found is None or one.strength > found.strength + _BETTER):
                    found = _repetition(one, signal)
        if found is not None:
            return found
    return _of_gpus(samples)


def _repetition(found: Period, signal: str) -> Repetition:
    return Repetition(found.seconds, found.strength, found.cycles, signal)


def _of_gpus(samples: Table | None) -> Repetition | None:
    """Return the repetition in the use of a GPU, which is read less often."""
    if samples is None or not samples.rows:
        return None
    rows = samples.where(samples["metric"] == "gpu.util").sorted("time")
    for device in np.unique(rows["device"]).tolist():
        mine = rows.where(rows["device"] == device)
        if mine.rows < 2:
            continue
        gap = float(np.median(np.diff(mine["time"]))) / 1e9
        grid = np.arange(mine["time"][0], mine["time"][-1], gap * 1e9)
        found = period(np.interp(grid, mine["time"], mine["value"]), gap) if gap > 0 else None
        if found is not None:
            return _repetition(found, "gpu")
    return None


def _gpus(samples: Table | None) -> list[Any]:
    """Return the readings of the GPUs that did something."""
    if samples is None or not samples.rows:
        return []
    found = series(samples.where(samples["metric"] == "gpu.util"), by_device=True)
    return [values for values in found.values() if len(values) and np.nanpercentile(values, 95) >= 5.0]


def _place(name: str) -> str:
    """Return a function for people; of the script itself its line: `sim.py:14`."""
    text = name.removeprefix("<module> (")
    return text.removesuffix(")") if text != name else name
