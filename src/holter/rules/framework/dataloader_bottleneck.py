"""DataloaderBottleneck: training waits for data."""

from __future__ import annotations

import json

import numpy as np

from holter.analysis.loading import dataloading
from holter.analysis.verdict.job_suspects import DATA_SHARE
from holter.analysis.verdict.result import SMALLER
from holter.rules import Issues, Lookback, Rule, Severity, State, Table, Window, parameter, rule_class
from holter.rules.engine.job_facts import steps_span

_SPANS_S = 120.0
"""How far back the rule reads the spans of the data loader, which are many."""
_EXPLAIN_EVERY_NS = 60_000_000_000
_COMPUTE = ("forward", "backward", "optimizer", "compute")


@rule_class
class DataloaderBottleneck(Rule):
    """The training thread spends too large a share of its steps waiting for the next batch."""

    reads = (
        "steps",
        "spans/data_loading",
        "spans/fetch",
        "spans/collate",
        "spans/stack",
        "spans/step",
        "events/loader",
        "samples/cpu.util",
        "samples/cpu.iowait",
    )
    formula = (
        "data loading / time of the last `window` steps > info, warning, or critical; classic: data loading"
        " > compute_ratio x compute"
    )
    advice = (
        "Use more loader workers with persistent_workers and prefetching. Cache decoded data, augment on "
        "the GPU, and pin memory."
    )
    packs = ("default", "essentials")
    consecutive = 2

    info: float | None = parameter(SMALLER, classic=None, low=0, high=100, unit="%", aliases=("threshold",))
    """Share of the step time above which the rule reports a note."""
    warning: float | None = parameter(DATA_SHARE, classic=None, low=0, high=100, unit="%")
    """Share of the step time above which it is a warning; the verdict names data loading from it on."""
    critical: float | None = parameter(40.0, classic=None, low=0, high=100, unit="%")
    """Share of the step time above which it is critical."""
    compute_ratio: float | None = parameter(None, classic=1.0, above=0)
    """Also report when data loading takes more than this times forward, backward and optimizer together."""
    window: int = parameter(200, low=1, unit="steps")
    """Number of recent steps of each rank that are judged."""
    min_steps: int = parameter(50, low=1, unit="steps", aliases=("patience",))
    """Minimum number of steps; fewer are not judged."""
    min_wait_ms: float = parameter(1.0, classic=0.0, low=0, unit="ms")
    """A smaller mean wait per step is a note at most."""
    min_lost_s: float = parameter(1.0, classic=0.0, low=0, unit="s")
    """A smaller total wait of the whole job is a note at most."""

    @property
    def lookback(self) -> Lookback:
        """The last steps, and the spans of the last two minutes."""
        return Lookback(steps=self.window, seconds=_SPANS_S)

    def evaluate(self, window: Window) -> Issues:
        """Judge all ranks together, then the slowest rank alone."""
        _learn_loaders(window)
        if window.unchanged("steps"):
            return
        steps = window.steady
        _ranks, where, counts = np.unique(steps["rank"], return_inverse=True, return_counts=True)
        steps = steps.where(counts[where] >= self.min_steps) if steps.rows else steps
        if not steps.rows:
            have = int(counts.max(initial=0))
            if not window.steps.rows:
                return window.insufficient("no_input", "no step")
            return window.too_few("too few steps in steady state", have, self.min_steps)
        if not window.job.observes("data_loading"):
            return window.insufficient("no_input", "no hook observes data loading")
        window.judged(steps.rows)
        share, ratio = _share(steps)
        severity = self._severity(window, steps, share, ratio)
        rank: int | None = None
        if severity is None:
            # Ranks wait for one another, so a slow loader slows down all ranks and hides in the mean.
            shares = {int(r): _share(steps.where(steps["rank"] == r)) for r in np.unique(steps["rank"])}
            rank = max(shares, key=lambda r: (shares[r][0], -r))
            share, ratio = shares[rank]
            severity = self._severity(window, steps.where(steps["rank"] == rank), share, ratio)
        if severity is None:
            return
        explained = self._explain(window, steps)
        causes = explained.get("causes") or []
        words, advice = _CAUSES.get(causes[0], ("", self.advice)) if causes else ("", self.advice)
        who = "training" if rank is None else f"rank {rank}"
        yield self.issue(
            f"{who} spends {share:.0f} % of its steps waiting for data" + (f": {words}" if words else ""),
            severity=severity,
            rank=rank,
            **steps_span(steps),
            evidence={"share_pct": share, "compute_ratio": ratio, "steps": steps.rows, **explained},
            advice=advice,
        )

    def _severity(self, window: Window, steps: Table, share: float, ratio: float | None) -> Severity | None:
        if self.compute_ratio is not None and ratio is not None and ratio > self.compute_ratio:
            return "critical"
        levels: list[tuple[Severity, float | None]] = [
            ("critical", self.critical),
            ("warning", self.warning),
            ("info", self.info),
        ]
        # The lowest level is the limit; raising it raises all levels.
        least = self.info or 0.0
        for severity, limit in levels:
            if limit is not None and share > max(limit, least):
                trained = (window.end - (window.job.first_step or window.job.start)) / 1e9
                small = float(steps["data_loading"].mean()) < self.min_wait_ms * 1e6
                small |= share / 100 * trained < self.min_lost_s
                return "info" if small else severity
        return None

    def _explain(self, window: Window, steps: Table) -> State:
        """Explain the wait; computed once a minute, because it costs more than the rule itself."""
        before = window.state.get("explained")
        if before and window.end - before["at"] < _EXPLAIN_EVERY_NS:
            return dict(before["evidence"])
        recent = steps.where(steps["time"] >= window.end - round(_SPANS_S * 1e9))
        loaders = window.state.get("loaders", [])
        every = np.ones(recent.rows, dtype=bool)
        loading = dataloading.stages(window.spans, recent, loaders, every) if recent.rows else None
        if loading is None:
            return dict(before["evidence"]) if before else {}
        cpu = [s.value for s in window.series("cpu.util").values()]
        wait = [s.value for s in window.series("cpu.iowait").values()]
        evidence = {
            "stages_pct": loading.stages,
            "workers": loading.workers,
            "needed_workers": loading.needed_workers,
            "worker_busy_pct": loading.busy_pct,
            "fetch_ms": loading.fetch_ms,
            "callables": [f"{c.name}: {c.fetch_pct:.0f} % of fetch" for c in loading.callables[:3]],
            "causes": dataloading.causes(
                loading,
                cpu_p50=max((float(np.median(v)) for v in cpu), default=None),
                iowait_p95=max((float(np.percentile(v, 95)) for v in wait), default=None),
            ),
        }
        window.state["explained"] = {"at": window.end, "evidence": evidence}
        return dict(evidence)


_CAUSES = {
    "single_process": (
        "the training process loads it itself",
        "Load in worker processes: num_workers above 0, and keep them with persistent_workers.",
    ),
    "cpu_saturated": (
        "the CPU is saturated",
        "The CPU is the limit: cache decoded data, or decode and augment on the GPU.",
    ),
    "io_wait": (
        "most of it is reading",
        "Reading is the limit: a local cache, larger files, a sequential format.",
    ),
    "too_few_workers": (
        "all workers are busy all the time",
        "Use more workers; the evidence says how many would hide the loading.",
    ),
    "periodic": (
        "workers are too slow for their number",
        "Use more workers, or let each prefetch more batches.",
    ),
    "epoch_start": (
        "workers start anew each epoch",
        "Keep workers between epochs: persistent_workers=True.",
    ),
}
"""The cause in words, and what to do about it."""


def _share(steps: Table) -> tuple[float, float | None]:
    """Return data loading as percent of the steps, and over compute."""
    waited = float(steps["data_loading"].astype(np.float64).sum())
    compute = float(sum(steps[part].astype(np.float64).sum() for part in _COMPUTE))
    return 100.0 * waited / float(
        steps["duration"].astype(np.float64).sum()
    ), waited / compute if compute else None


def _learn_loaders(window: Window) -> None:
    """Keep the loaders' settings, which are recorded once, when a loader is created."""
    known = window.state.setdefault("loaders", [])
    for fact in dataloading.loaders(window.new("events")):
        if fact not in known and len(known) < 64:
            known.append(json.loads(json.dumps(fact)))
