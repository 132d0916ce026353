"""CPUOversubscription: the job has more threads at work than cores, or than its quota allows."""

from __future__ import annotations

from collections import Counter

from holter.analysis.verdict.evidence import counted
from holter.analysis.verdict.machine_suspects import WAITS_FOR_CORE
from holter.rules import Issue, Issues, Lookback, Rule, Severity, Window, parameter, rule_class
from holter.rules.engine.levels import grade, worst
from holter.rules.patterns.cores import cpu_of_job, waits_for_core
from holter.rules.patterns.patience import start_of

_MINUTE_S = 60.0
_BUSY_PCT = 90.0
"""Threads compete only while the cores are busy; the load average also counts threads that wait for disks."""
_OWN = 0.5
"""The job competes with itself if it uses this share of the used CPU time; otherwise see CPUContention."""
_ADVICE = {
    "throttled": "The quota stops the job: raise it, or run fewer workers and threads than it allows.",
    "delay": "Use fewer loader workers, and set the threads of each process (OMP_NUM_THREADS).",
    "pressure": "Use fewer loader workers, and set the threads of each process (OMP_NUM_THREADS).",
    "load": "Use fewer loader workers, and set the threads of each process (OMP_NUM_THREADS).",
}


@rule_class
class CPUOversubscription(Rule):
    """The job's own threads wait for a core, or a quota stops them.

    CPUContention finds jobs that wait for cores which other programs use. Where the kernel counts how long
    the trainers wait, that wait is judged; load and pressure, which include other programs and threads that
    nobody waits for, are judged elsewhere only.
    """

    reads = (
        "samples/cpu.load1",
        "samples/cpu.core.util",
        "samples/cpu.util",
        "samples/cgroup.throttled_pct",
        "samples/psi.cpu",
        "samples/proc.cpu",
        "samples/proc.cpu.delay",
        "samples/proc.count",
        "samples/proc.threads",
    )
    formula = (
        "means of the last minute: share of CPU periods throttled by a quota, or time that the training "
        "threads wait for a core while the job uses most of the used CPU time; where that is "
        "unknown, the job's load per core while cores are busy, or share of time in which a task waits for a "
        "CPU (psi.cpu); each >= its limits"
    )
    advice = (
        "Limit threads per process (OMP_NUM_THREADS), use fewer loader workers, raise the CPU quota, or pin"
        " ranks to NUMA nodes."
    )
    packs = ("default", "performance")
    every_s = 30.0
    consecutive = 2
    lookback = Lookback(seconds=_MINUTE_S)

    delay_info: float | None = parameter(10.0, above=0, high=100, unit="%")
    """Wait of the trainers from which the rule reports a note."""
    delay_warning: float | None = parameter(WAITS_FOR_CORE, above=0, high=100, unit="%")
    """Wait that is a warning; the verdict names contention from this share on."""
    delay_critical: float | None = parameter(60.0, above=0, high=100, unit="%")
    """Wait that is critical."""
    load_info: float | None = parameter(1.2, above=0, unit="threads per core")
    """Load from which the rule reports a note."""
    load_warning: float | None = parameter(1.5, above=0, unit="threads per core")
    """Load that is a warning."""
    load_critical: float | None = parameter(3.0, above=0, unit="threads per core")
    """Load that is critical."""
    throttled_info: float | None = parameter(1.0, above=0, high=100, unit="%")
    """Share of throttled periods from which the rule reports a note."""
    throttled_warning: float | None = parameter(5.0, above=0, high=100, unit="%")
    """Share of throttled periods that is a warning."""
    throttled_critical: float | None = parameter(25.0, above=0, high=100, unit="%")
    """Share of throttled periods that is critical."""
    pressure_warning: float | None = parameter(30.0, above=0, high=100, unit="%")
    """CPU pressure that is a warning."""
    pressure_critical: float | None = parameter(60.0, above=0, high=100, unit="%")
    """CPU pressure that is critical."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by the worst of quota and wait, or of quota, load and pressure."""
        if (since := start_of(window, skip_warmup=True)) is None:
            return
        means = {
            metric: {node: float(s.value.mean()) for (node, device), s in found.items() if not device}
            for metric in ("cpu.load1", "cpu.util", "cgroup.throttled_pct", "psi.cpu")
            for found in [window.series(metric, since=since)]
        }
        cores = Counter(node for node, _ in window.series("cpu.core.util", since=since))
        means["proc.cpu"] = cpu_of_job(window, since)
        waits = waits_for_core(window, since)
        means["proc.cpu.delay"] = {node: float(one.value.mean()) for node, one in waits.items()}
        nodes = sorted({node for values in means.values() for node in values})
        for node in nodes:
            here = {metric: values[node] for metric, values in means.items() if node in values}
            levels = self._levels(here, cores[node])
            if not levels:
                continue
            window.judged(1)
            if (severity := worst(*levels.values())) is not None:
                code = next(code for code, level in levels.items() if level == severity)
                yield self._issue(window, node, severity, code, here, cores[node])
        if not window.points:
            window.insufficient("no_input", "neither load, nor quota, nor CPU pressure")

    def _levels(self, here: dict[str, float], cores: int) -> dict[str, Severity | None]:
        """Return the level of each available measure; the first of equal levels counts."""
        levels: dict[str, Severity | None] = {}
        if "cgroup.throttled_pct" in here:
            levels["throttled"] = grade(
                here["cgroup.throttled_pct"],
                info=self.throttled_info,
                warning=self.throttled_warning,
                critical=self.throttled_critical,
            )
        if "proc.cpu.delay" in here:
            found = grade(
                here["proc.cpu.delay"],
                info=self.delay_info,
                warning=self.delay_warning,
                critical=self.delay_critical,
            )
            return {**levels, "delay": found if _part(here, cores) >= _OWN else None}
        busy = here.get("cpu.util", 0.0) >= _BUSY_PCT
        load = here["cpu.load1"] / cores * _part(here, cores) if "cpu.load1" in here and cores else None
        # With all cores busy a task waits now and then; that is normal unless tasks outnumber cores.
        crowded = busy and (load is None or self.load_info is None or load >= self.load_info)
        if "psi.cpu" in here:
            found = grade(here["psi.cpu"], warning=self.pressure_warning, critical=self.pressure_critical)
            levels["pressure"] = found if crowded else None
        if load is not None:
            found = grade(load, info=self.load_info, warning=self.load_warning, critical=self.load_critical)
            levels["load"] = found if busy else None
        return levels

    def _issue(
        self, window: Window, node: str, severity: Severity, code: str, here: dict[str, float], cores: int
    ) -> Issue:
        counts, threads = (_latest(window, metric, node) for metric in ("proc.count", "proc.threads"))
        has = f"{sum(threads.values())} threads in {sum(counts.values())} processes on {cores} cores"
        words = {
            "delay": f"the training waits for a core {here.get('proc.cpu.delay', 0):.0f} % of the time: "
            f"the job has {has if threads and counts else f'more threads at work than {cores} cores'}",
            "throttled": f"the CPU quota ran out in {here.get('cgroup.throttled_pct', 0):.0f} % of periods",
            "pressure": f"a task waits for a CPU {here.get('psi.cpu', 0):.0f} % of the time",
            "load": f"{here.get('cpu.load1', 0):.0f} threads compete for {cores} cores",
        }
        return self.issue(
            words[code],
            severity=severity,
            code=code,
            node=node,
            **window.span,
            evidence={**here, "cores": cores or None, "processes": counts, "threads": threads},
            advice=_ADVICE[code] + _numbers(counts, _allowed(window, node, cores)),
        )


def _latest(window: Window, metric: str, node: str) -> dict[str, int]:
    """Return the last reading of each role of processes."""
    return {role: int(one.value[-1]) for (where, role), one in window.series(metric).items() if where == node}


def _allowed(window: Window, node: str, cores: int) -> int:
    """Return how many cores the job may use, of which a quota may allow fewer."""
    quota = window.job.nodes.get(node, {}).get("cpu_quota")
    return max(int(min(cores, float(quota))), 1) if quota else cores


def _numbers(counts: dict[str, int], cores: int) -> str:
    """Return the settings that fit the cores."""
    trainers, workers = counts.get("trainer", 0), counts.get("worker", 0)
    if not trainers or not cores:
        return ""
    each = max(cores // trainers, 1)
    fits = max(each - 1, 1) if workers else 0
    loader = f", num_workers={fits}" if workers > fits * trainers else ""
    return (
        f" For {counted(cores, 'core')} and {counted(trainers, 'trainer')}: "
        f"OMP_NUM_THREADS={max(each - fits, 1)}{loader}."
    )


def _part(here: dict[str, float], cores: int) -> float:
    """Return the job's share of the used CPU time, because load and pressure cover the whole machine.

    The job cannot change how many threads other jobs run.
    """
    used = cores * here.get("cpu.util", 0.0)
    own = here.get("proc.cpu")
    return min(own / used, 1.0) if own is not None and used > 0 else 1.0
