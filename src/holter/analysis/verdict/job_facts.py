"""Facts of a recorded job: the numbers behind its verdict and description."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from holter.analysis.loading.dataloading import COMPUTE, CPU_FULL
from holter.analysis.verdict.evidence import Evidence, ms, pct
from holter.analysis.verdict.result import SuspectResult

if TYPE_CHECKING:
    from holter.analysis.jobs.lone_evaluation import LoneEvaluation
    from holter.analysis.jobs.stragglers import Straggler
    from holter.analysis.jobs.what_if import WhatIf
    from holter.analysis.loading.dataloading import DataLoading
    from holter.analysis.loading.pipelines import DataPipeline
    from holter.analysis.machine.load import Load
    from holter.analysis.machine.threads import ThreadShares
    from holter.analysis.steps.holders import Holder
    from holter.analysis.steps.named_work import NamedWork
    from holter.analysis.steps.own_code import OwnCode
    from holter.analysis.verdict.profiled_python import ProfiledPython
    from holter.analysis.verdict.profiled_steps import KernelTimes, ProfiledSteps

_TYPICAL = 0.75
"""A part whose share of a typical step is at least this fraction of its mean share is a part of each step."""


class MeasuredRun(NamedTuple):
    """An earlier job of the same command."""

    job: str
    workers: int
    """Workers of its data loader."""
    step_ms: float
    """Its mean step time."""


@dataclass(frozen=True, slots=True, order=True)
class Stall:
    """One step that holds most of the time of a part."""

    share_pct: float
    """Percent of the loop."""
    step: int
    duration_ms: float


@dataclass(frozen=True, kw_only=True)
class VerdictFacts:
    """A job in numbers. They are about the steady state unless stated otherwise."""

    breakdown: dict[str, float] = field(default_factory=dict)
    """Part → percent of the loop; adds up to 100."""
    statistics: dict[str, float | int] = field(default_factory=dict)
    """The result of `step_statistics`."""
    steady_steps: int = 0
    """Steady steps of the rank with the most."""
    step_ms: float | None = None
    """Median duration of a step without evaluation and checkpoint."""
    mean_step_ms: float | None = None
    """Mean duration of all steady steps, without evaluation."""
    parts_ms: dict[str, float] = field(default_factory=dict)
    """Median of each part in those steps."""
    rest_ms: float | None = None
    """Median duration of those steps without the wait for batches."""
    rest_least_ms: float | None = None
    """The same for the fastest tenth of these steps."""
    ranks: tuple[int, ...] = ()
    window: dict[str, int] | None = None
    """step_start, step_end, time_start, time_end of the steady steps."""
    loading: DataLoading | None = None
    pipeline: DataPipeline | None = None
    """The tf.data pipeline that makes the batches."""
    causes: list[str] = field(default_factory=list)
    """Codes of the reasons why the training thread waits for batches."""
    stragglers: list[Straggler] = field(default_factory=list)
    lone_evaluation: LoneEvaluation | None = None
    """Ranks that evaluate while the others wait for them."""
    staged: bool = False
    """Whether ranks send tensors to single other ranks, as the stages of a pipeline do."""
    what_if: WhatIf | None = None
    """Mean step times without single causes, if several ranks take the steps together."""
    loads: list[Load] = field(default_factory=list)
    threads: list[ThreadShares] = field(default_factory=list)
    """How much of the time the training threads run, wait for a core, or are blocked."""
    device: str | None = None
    """cpu or cuda, as the framework reports."""
    device_ms: float | None = None
    """How long the device computes a step, by its completion times."""
    framework: str | None = None
    """The framework that trains; the advice uses its terms."""
    observed: tuple[str, ...] = ()
    """The parts of a step that its hooks observe; empty = all of them."""
    kernels: KernelTimes | None = None
    profiled: ProfiledSteps | None = None
    """The newest profiled steps."""
    python: ProfiledPython | None = None
    """The steps in which a Python profiler ran."""
    running: bool = False
    """Whether the job still runs and accepts orders."""
    measured: tuple[MeasuredRun, ...] = ()
    """Earlier jobs of the same command, the newest first; advice is checked against them."""
    not_seen: tuple[str, ...] = ()
    """Parts that each step has but that no hook observed; their time is in `other`."""
    not_counted: tuple[str, ...] = ()
    """Work of other threads than the loop's, which steps do not include."""

    own_code: list[OwnCode] = field(default_factory=list)
    """Functions that take the time outside all known parts, with enough samples, the largest first."""
    iterating: float = 0.0
    """The share of the loop's iterators in the time outside all known parts, 0 to 1."""
    awaiting: float = 0.0
    """The share of waits for the device in the time outside all known parts, 0 to 1."""
    holders: list[Holder] = field(default_factory=list)
    """Threads that hold the interpreter, the largest share first."""
    named_work: list[NamedWork] = field(default_factory=list)
    """Callbacks, loggers and annotations within parts of the steps, the largest first."""
    collecting_pct: float = 0.0
    """Percent of the loop in garbage collections that a span shows."""
    stalls: dict[str, Stall] = field(default_factory=dict)
    """Part → the step that holds more than half of the part's time, if there is one."""

    def seen(
        self, text: str, metric: str, value: float, threshold: float | None = None, where: str | None = None
    ) -> Evidence:
        """Make evidence from the steady steps."""
        return Evidence(text, metric, value, threshold, where, self.window)

    def shows(self, part: str) -> bool:
        """Return whether the breakdown holds a value for a part; a part that nothing observes has none."""
        if part == "compute" or self.observed:
            return bool(self.breakdown.get(part)) or part in (*self.observed, "other")
        return part not in self.not_seen

    def of_time(self, *parts: str) -> str:
        """Return `of each step` if typical steps have this share of the parts, or `of the loop's time`."""
        step, usual = self.step_ms or 0.0, sum(self.parts_ms.get(part, 0.0) for part in parts)
        share = self.share(*parts)
        typical = not step or _TYPICAL * share <= 100 * usual / step <= max(share / _TYPICAL, 1.0)
        return "of each step" if typical else "of the loop's time"

    def of_time_with_stall(self, *parts: str) -> str:
        """Return the same, and name the step that holds most of the parts' time."""
        of = self.of_time(*parts)
        if of == "of each step":
            return of
        worst = max((self.stalls[part] for part in parts if part in self.stalls), default=None)
        if worst is None:
            return of
        took = f"step {worst.step} took {ms(worst.duration_ms)}"
        return f"{of} ({took}, {pct(worst.share_pct)} of the loop)"

    @property
    def device_pct(self) -> float | None:
        """Percent of the loop in which the device computes, by its completion times.

        The mean step counts, because batches may come late in some steps only.
        """
        if self.device_ms is None or not self.step_ms:
            return None
        return min(100.0 * self.device_ms / max(self.step_ms, self.whole_step_ms), 100.0)

    @property
    def held_pct(self) -> float:
        """Percent of the loop in which the training thread waits for another thread's Python code."""
        return sum(one.pct for one in self.holders)

    @property
    def around_checkpoints(self) -> list[OwnCode]:
        """Own code that runs only in steps that write a checkpoint, from 1 % of the loop on."""
        return [one for one in self.own_code if one.checkpoints and one.pct >= 1]

    @property
    def load(self) -> Load | None:
        """The node with the least busy GPUs; without GPUs the one with the busiest CPU."""
        return self.loads[0] if self.loads else None

    @property
    def whole_step_ms(self) -> float:
        """Mean duration of all steady steps with evaluation; shares of the loop are shares of it."""
        training = 1 - self.breakdown.get("eval", 0.0) / 100
        return (self.mean_step_ms or 0.0) / training if training > 0 else 0.0

    @property
    def evaluation_ms(self) -> float:
        """Mean time of evaluation per step, ms."""
        return self.whole_step_ms - (self.mean_step_ms or 0.0)

    @property
    def awaited_evaluation(self) -> LoneEvaluation | None:
        """The evaluation of few ranks, if waiting for it is most of the communication."""
        alone = self.lone_evaluation
        return alone if alone and alone.waiting_ms >= self.mean_ms("communication") / 2 else None

    def mean_ms(self, part: str) -> float:
        """Mean time of a part per step, ms."""
        return self.share(part) / 100 * self.whole_step_ms

    def without(self, share_pct: float) -> float | None:
        """Return the mean step without evaluation and without a share of the loop, ms."""
        step = self.mean_step_ms
        return None if step is None else max(step - share_pct / 100 * self.whole_step_ms, 0.0)

    def share(self, *parts: str) -> float:
        """Percent of the loop that the parts take together; 0 without steps."""
        return sum(self.breakdown.get(part, 0.0) for part in parts)

    def smaller(self, text: str, share: float) -> SuspectResult:
        """Return the result of a suspect that is too small for a bottleneck and too large to be ruled out."""
        gain = f"worth up to {ms(share / 100 * self.whole_step_ms)} of {ms(self.whole_step_ms)}"
        return SuspectResult(share=share, smaller=f"{text}, {gain}")

    @property
    def compute_share(self) -> float:
        """Percent of the loop that is the model's own work."""
        return self.share(*COMPUTE)

    @property
    def free_rest_ms(self) -> float | None:
        """Duration of a step without the wait for batches on otherwise idle cores.

        On a saturated CPU the workers slow the training process down. With less work for the workers, a step
        takes the CPU time of the training process, but no less than its fastest steps.
        """
        load, rest, least = self.load, self.rest_ms, self.rest_least_ms
        if rest is None or least is None or load is None:
            return rest
        mean, own = self.mean_step_ms, load.trainer_core_mean
        if self.device == "cuda" or (load.cpu_p50 or 0.0) < CPU_FULL or mean is None or own is None:
            return rest
        return min(max(mean * own / 100, least), rest)
