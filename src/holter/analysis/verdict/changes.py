"""Changes during a job: since when steps take longer, and which resources grow."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.machine.growth import growth
from holter.analysis.steps.change_points import rises
from holter.analysis.steps.outliers import spread_evenly
from holter.analysis.steps.trainings import by_model
from holter.analysis.steps.warmup import by_rank
from holter.analysis.verdict.evidence import ms, part_name
from holter.schema.phases import BREAKDOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from holter.analysis.steps.change_points import Rise
    from holter.schema.table import Table

STEP_TIME = "step_time"
APART = ("eval", "checkpoint")
"""Parts of steps that the ledger lists on their own: they explain the longer steps."""
_SETTLE_S = 10.0
"""After the first step, or after a fifth of a short loop, resources should no longer grow."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource whose growth is a change."""

    name: str
    unit: str
    least: float
    """Smaller growth is no change."""
    by_device: bool = False
    """Devices are judged apart; otherwise the sum over the roles of processes."""


RESOURCES = {
    "proc.private": Resource("host memory", "bytes", 2.0**28),
    "gpu.mem.used": Resource("GPU memory", "bytes", 2.0**29, by_device=True),
    "shm.used": Resource("shared memory", "bytes", 2.0**27),
    "proc.files": Resource("open files", "files", 50.0),
    "proc.threads": Resource("threads", "threads", 20.0),
    "proc.count": Resource("processes", "processes", 10.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopChange:
    """A lasting change of step time or of a resource."""

    what: str
    """`step_time`, or a metric of `RESOURCES`."""
    kind: str
    """level: it is higher than before; growth: it grows steadily."""
    step: int
    """The step in which it began."""
    time: int
    """When it began, ns since the epoch."""
    until_step: int | None = None
    """The last step with the higher level; None: it lasts until the end."""
    before: float
    after: float
    unit: str
    part: str | None = None
    """The part of the step that grew most."""
    grown_ms: dict[str, float] = field(default_factory=dict)
    """Part of the step → mean time that it takes longer; the largest first."""
    cost_pct: float | None = None
    """Extra time of the typical step, percent of the time of all steps."""
    per_s: float | None = None
    """Growth per second."""
    node: str = ""
    device: str = ""
    rank: int | None = None

    @property
    def text(self) -> str:
        """The change in words."""
        return _longer_steps(self) if self.what == STEP_TIME else _resource_text(self)

    def to_json(self) -> dict[str, Any]:
        """Return the change with the keys of `describe --json`."""
        return {**asdict(self), "text": self.text}


def _longer_steps(change: LoopChange) -> str:
    lasts = change.until_step is None
    until = "" if lasts else f" to step {change.until_step:,}"
    said = f"{'since' if lasts else 'from'} {_began(change)}{until} steps {'take' if lasts else 'took'} "
    said += f"{ms(change.after)} instead of {ms(change.before)}"
    if change.part is None:
        return said
    return f"{said}; {part_name(change.part)} grew by {ms(change.grown_ms[change.part])}"


def _resource_text(change: LoopChange) -> str:
    name = RESOURCES[change.what].name + (f" of {change.device}" if change.device else "")
    levels = f"from {amount(change.before, change.unit)} to {amount(change.after, change.unit)}"
    if change.per_s is None:
        return f"{name} rose {levels} at {_began(change)}"
    speed = amount(change.per_s, change.unit)
    return f"{name} grew steadily since {_began(change)}, {levels}: {speed} per second"


def _began(change: LoopChange) -> str:
    return f"step {change.step:,} ({time.strftime('%H:%M', time.localtime(change.time / 1e9))})"


def amount(value: float, unit: str) -> str:
    """Write an amount of a resource for people."""
    scaled = value / 1e6 if unit == "bytes" else value
    return (f"{scaled:,.0f}" if scaled >= 100 else f"{scaled:.3g}") + (" MB" if unit == "bytes" else "")


def step_changes(
    steps: Table, models: Mapping[int, Sequence[tuple[int, str]]] | None = None
) -> list[LoopChange]:
    """Return where the steps of the lowest rank become longer, in order of time.

    Ranks of a synchronous training are equally fast, so one of them shows the changes. Of more steps than
    `MOST_FOR_USUAL`, so many are looked at.

    Args:
        steps: Table `steps`, steady state only.
        models: Rank → steps in which another model begins to train; see `outliers`.
    """
    found: list[LoopChange] = []
    rows = next(by_rank(steps), np.empty(0, dtype=np.int64))
    restarts = np.flatnonzero(np.diff(steps["step"][rows]) <= 0) + 1
    total = float(steps["duration"][rows].sum())
    for attempt in np.split(rows, restarts):
        for part in by_model(steps, attempt, models or {}) if len(attempt) else ():
            mine = steps.where(spread_evenly(part))
            own = (mine["duration"] - sum(mine[part] for part in APART)).astype(np.float64)
            found += _of_attempt(mine, own, total * (mine.rows / len(part)))
    return found


def _of_attempt(steps: Table, own: NDArray[np.float64], total: float) -> list[LoopChange]:
    def is_slower(rise: Rise) -> bool:
        """Return whether an early rise has another cause than batches that were ready at the start."""
        return _of_steps(steps, own, rise, total).part != "data_loading"

    return [_of_steps(steps, own, rise, total) for rise in rises(own, early=is_slower)]


def _of_steps(steps: Table, own: NDArray[np.float64], rise: Rise, total: float) -> LoopChange:
    old, new = slice(rise.base, rise.start), slice(rise.start, rise.end)
    usual_old = own[old] <= 3 * rise.before
    usual_new = own[new] <= 3 * rise.after
    parts = [part for part in BREAKDOWN if part not in APART]
    grown = {
        part: float(steps[part][new][usual_new].mean() - steps[part][old][usual_old].mean()) / 1e6
        for part in parts
    }
    grown = {part: value for part, value in sorted(grown.items(), key=lambda item: -item[1]) if value > 0}
    return LoopChange(
        what=STEP_TIME,
        kind="level",
        step=int(steps["step"][rise.start]),
        time=int(steps["time"][rise.start]),
        until_step=None if rise.end == len(own) else int(steps["step"][rise.end - 1]),
        before=rise.before / 1e6,
        after=rise.after / 1e6,
        unit="ms",
        part=next(iter(grown), None),
        grown_ms=grown,
        cost_pct=100 * (rise.after - rise.before) * (rise.end - rise.start) / total,
        node=str(steps["node"][rise.start]),
        rank=int(steps["rank"][rise.start]),
    )


def resource_changes(samples: Table, steps: Table) -> list[LoopChange]:
    """Return the resources that grow, or that have risen, until the end of the loop.

    Args:
        samples: Table `samples`.
        steps: Table `steps`, warm-up included.
    """
    if not steps.rows:
        return []
    begin, end = int(steps["time"].min()), int((steps["time"] + steps["duration"]).max())
    since = begin + min(round(_SETTLE_S * 1e9), (end - begin) // 5)
    samples = samples.where((samples["time"] >= since) & (samples["time"] <= end))
    first = steps.where(next(by_rank(steps)))
    found: list[LoopChange] = []
    for metric, resource in RESOURCES.items():
        rows = samples.where((samples["metric"] == metric) & np.isfinite(samples["value"]))
        for node, device, moments, values in _series(rows, resource):
            found += _of_resource(metric, resource, node, device, moments, values, first)
    return found


def _series(
    rows: Table, resource: Resource
) -> Iterator[tuple[str, str, NDArray[np.int64], NDArray[np.float64]]]:
    """Yield node, device, times and values of a resource; roles of processes are summed up."""
    for node in sorted(set(rows["node"].tolist())):
        here = rows.where(rows["node"] == node)
        names = sorted(set(here["device"].tolist())) if resource.by_device else [""]
        for device in names:
            mine = here.where(here["device"] == device) if resource.by_device else here
            moments, which = np.unique(mine["time"], return_inverse=True)
            yield node, device, moments, np.bincount(which, mine["value"]).astype(np.float64)


def _of_resource(
    metric: str,
    resource: Resource,
    node: str,
    device: str,
    moments: NDArray[np.int64],
    values: NDArray[np.float64],
    steps: Table,
) -> Iterator[LoopChange]:
    about: dict[str, Any] = {"what": metric, "unit": resource.unit, "node": node, "device": device}

    def began(moment: int) -> dict[str, Any]:
        row = max(int(np.searchsorted(steps["time"], moment, side="right")) - 1, 0)
        return {"step": int(steps["step"][row]), "time": moment}

    grows = growth(moments, values)
    if grows is not None and grows.after - grows.before >= resource.least:
        about |= {"before": grows.before, "after": grows.after, "per_s": grows.per_s}
        yield LoopChange(kind="growth", **about, **began(grows.since))
        return
    for rise in rises(values, min_relative=0.2):
        if rise.end == len(values) and rise.after - rise.before >= resource.least:
            about |= {"before": rise.before, "after": rise.after}
            yield LoopChange(kind="level", **about, **began(int(moments[rise.start])))
