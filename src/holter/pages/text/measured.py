"""Draws what each rule of the profiler measured in the training loop, with remarks on the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.text import measured_charts as charts
from holter.pages.text.sections import bullets, table
from holter.views.document.active_then import in_steps
from holter.views.issues import coverage
from holter.views.wording import duration, milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holter.store.trial import Trial
    from holter.views.document.types import Description
    from holter.views.document.types.rules import RuleResult
    from holter.views.figure import Figure

_MOST = 64
"""Ranks or devices that get their own line."""
_WIDE_PCT = 50.0
"""A spread of this many percentage points counts as fluctuation."""


def measured(told: Description, trial: Trial, draw: Callable[[Figure], Markup]) -> Iterator[Markup]:
    """Yield a section for each rule of the profiler that measured something.

    If initialization took longer than training, only the initialization is described. `draw` makes HTML of a
    chart.
    """
    ran: dict[str, RuleResult] = {}
    for rule in told["rules"]:
        if rule.get("details"):
            ran.setdefault(str(rule.get("rule")), rule)
    phases = told["phases"]
    begun, loop = (phases["initialization_s"], phases["training_loop_s"]) if phases else (None, None)
    if begun and loop and begun > loop:
        parts = [_initialization(ran.get("MaxInitializationTime"), begun, loop)]
        title = "The initialization in detail"
    else:
        title = "The training loop in detail"
        parts = [
            _section(name, made(ran[key]), draw) for key, (name, made) in _SECTIONS.items() if key in ran
        ]
        if outliers := ran.get("StepOutlier"):
            parts.insert(1, _in_outliers(outliers, trial, draw))
    if any(parts):
        yield html(tag("h2", title), *parts)


class _Section(NamedTuple):
    """What one rule measured."""

    sentences: list[str]
    figures: list[Figure]
    table: Markup = Markup()


def _section(name: str, found: _Section, draw: Callable[[Figure], Markup]) -> Markup:
    if not any(found):
        return Markup()
    return html(tag("h3", name), bullets(found.sentences), found.table, _charts(map(draw, found.figures)))


def _charts(drawn: Iterable[Markup]) -> Markup:
    inside = html(*drawn)
    return tag("div", inside, class_="charts") if inside else inside


def _initialization(rule: RuleResult | None, begun: float, loop: float) -> Markup:
    said = [f"The training took {duration(begun)} to begin, and {duration(loop)} to train."]
    parts = rule["details"].get("parts_s") or {} if rule else {}
    rows = [(name.replace("_", " "), duration(seconds)) for name, seconds in parts.items()]
    limit = rule["parameters"].get("threshold") if rule else None
    if limit is not None:
        said.append(f"MaxInitializationTime looks for more than {limit:g} min before the first step.")
    return bullets(said) + (table(("", ""), rows) if rows else "")


def _steps(rule: RuleResult) -> _Section:
    found = rule["details"].get("processes") or {}
    rows: list[tuple[str, ...]] = []
    said: list[str] = []
    drawn: list[Figure] = []
    for key, one in list(found.items())[:_MOST]:
        mode, _, rank = key.partition("/")
        who = f"rank {rank}" if mode == "train" else f"rank {rank}, {mode}"
        times = [milliseconds(one.get(name)) for name in ("mean", "max", "p99", "p95", "p50", "min")]
        rows.append((who, *times, f"{one['number_of_outliers']:,}"))
        if len(drawn) < charts.MOST and any(one["histogram"]["counts"]):
            drawn.append(charts.times(f"Steps of {who}", one["histogram"]))
    if not rows:
        return _Section([], [])
    total = sum(one["number_of_outliers"] for one in found.values())
    limits = rule["parameters"]
    limit = f"limit: {limits.get('stddev', 0):g} deviations"
    allowed = f"; more than {limits.get('n_outliers', 0):,} make an issue"
    said.append(f"{total:,} steps are outliers ({limit}{allowed})." if total else f"No outliers ({limit}).")
    heads = ("", "mean", "max", "p99", "p95", "p50", "min", "outliers")
    return _Section(said, drawn, table(heads, rows, numbers=range(1, 8)))


def _in_outliers(rule: RuleResult, trial: Trial, draw: Callable[[Figure], Markup]) -> Markup:
    """Draw what ran in the steps that were too long, where the rule fired."""
    found = rule["details"].get("processes") or {}
    slow = {
        int(key.partition("/")[2]): one["step_numbers"] for key, one in found.items() if one["step_numbers"]
    }
    if not rule.get("triggered") or not slow:
        return Markup()
    shares = in_steps(trial, slow)
    return _charts(map(draw, charts.shares("in the long steps", shares)))


def _gpus(rule: RuleResult) -> _Section:
    boxes, limits = rule["details"].get("gpus") or {}, rule["parameters"]
    low, lowest = limits.get("threshold_p95"), limits.get("threshold_p5")
    said = []
    for name, box in list(boxes.items())[:_MOST]:
        p95, p5 = box.get("gpu_95"), box.get("gpu_5")
        if p95 is None or p5 is None:
            continue
        if low is not None and p95 <= low:
            said.append(f"{name} is used too little: 95 % of its last readings are {percent(p95)} or less.")
        elif lowest is not None and p5 < lowest:
            said.append(f"{name} idles at times: 5 % of its last readings are {percent(p5)} or less.")
        if p95 - p5 > _WIDE_PCT:
            said.append(
                f"{name} fluctuates: nine of ten readings lie between {percent(p5)} and {percent(p95)}."
            )
    drawn = [charts.boxes("Utilization of GPUs", boxes)] if boxes else []
    if boxes and not said and not rule.get("triggered"):
        said.append("No GPU is used too little.")
    return _Section(said, drawn)


def _balance(rule: RuleResult) -> _Section:
    loads = rule["details"].get("workloads") or {}
    far = rule["details"].get("distances") or {}
    limit = rule["parameters"].get("threshold")
    pairs = [(away, one, other) for one, others in far.items() for other, away in others.items()]
    said = ["There is one GPU: no load to balance."] if len(loads) == 1 else []
    for away, one, other in sorted(pairs, reverse=True)[:_MOST]:
        if limit is not None and away > limit:
            said.append(
                f"{one} and {other} are loaded unlike each other: distance {away:.2f}, limit {limit:g}."
            )
    if pairs and not said:
        away, one, other = max(pairs)
        said.append(
            f"The GPUs are loaded alike: {one} and {other} differ most, by {away:.2f} (limit {limit:g})."
        )
    drawn = [charts.load(name, counts) for name, counts in list(loads.items())[: charts.MOST]]
    return _Section(said, drawn)


def _loading(rule: RuleResult) -> _Section:
    nodes = rule["details"].get("nodes") or {"": rule["details"]}
    said: list[str] = []
    drawn: list[Figure] = []
    for node, one in list(nodes.items())[:_MOST]:
        on = f" on {node}" if node else ""
        count, cores, limits = one.get("dataloaders"), one.get("cores"), rule["parameters"]
        if count is not None and cores:
            share = 100 * count / cores
            least, most = limits.get("min_threshold", 0.0), limits.get("max_threshold", share)
            hint = "; more could be" if share < least else "; fewer would do" if share > most else ""
            said.append(f"{count:g} loader processes ran{on}, on {cores:g} cores{hint}.")
        if one.get("pin_memory") is False:
            said.append(f"`pin_memory` is off{on}, which matters where there is a GPU.")
        if one.get("num_workers") and not one.get("prefetch"):
            said.append(f"Nothing is fetched ahead{on}; `prefetch_factor` says how much.")
        waits = one.get("dataloading_time_ms") or {}
        if waits.get("max") is not None:
            p25, p50, p95 = (milliseconds(waits.get(name)) for name in ("p25", "p50", "p95"))
            said.append(f"Loading a batch took {p50} in the median{on}, {p25} (p25) to {p95} (p95).")
            histogram = {"counts": waits.get("histogram") or [], "from": 0.0, "to": waits["max"]}
            if any(histogram["counts"]) and len(drawn) < charts.MOST:
                drawn.append(charts.times(f"Loading a batch{on}", histogram, "batches"))
    return _Section(said, drawn)


def _batch(rule: RuleResult) -> _Section:
    boxes, limits = rule["details"].get("boxes") or {}, rule["parameters"]
    of = {"cpu": "cpu_threshold_p95", "gpu": "gpu_threshold_p95", "memory": "gpu_memory_threshold_p95"}
    said = []
    for name, box in list(boxes.items())[:_MOST]:
        limit = limits.get(of.get(name.partition(" ")[0], ""))
        if limit is not None and box.get("p95") is not None and box["p95"] >= limit:
            said.append(f"{name}: p95 is {percent(box['p95'])}, not below {limit:g} %.")
    if rule.get("triggered"):
        said.insert(0, "CPU, a GPU and its memory were little used together: a larger batch may fit.")
    drawn = [charts.boxes("CPU, GPUs and their memory", boxes)] if boxes else []
    return _Section(said, drawn)


def _bottlenecks(limit: str, above: str) -> Callable[[RuleResult], _Section]:
    def made(rule: RuleResult) -> _Section:
        said: list[str] = []
        drawn: list[Figure] = []
        for node, one in list(rule["details"].items())[:_MOST]:
            if not isinstance(one, dict) or not one.get("snapshots") or "bottleneck_count" not in one:
                continue
            count, low, bad = (one[name] for name in ("snapshots", "low_gpu_utilization", "bottleneck_count"))
            gpu = f"below {rule['parameters'].get('gpu_threshold', 0):g} %"
            core = f"{above} above {rule['parameters'].get(limit, 0):g} %"
            said.append(
                f"{node}: a GPU was {gpu} in {low:,} of {count:,} snapshots; in {bad:,} of these "
                f"({percent(100 * bad / count)} of all) with {core}."
            )
            if low and len(drawn) < charts.MOST:
                drawn.append(charts.snapshots(node, count, low, bad, gpu, core))
        return _Section(said, drawn)

    return made


def _memory(rule: RuleResult) -> _Section:
    boxes = rule["details"].get("gpus") or {}
    said = []
    for name, box in list(boxes.items())[:_MOST]:
        p95, p5 = box.get("p95"), box.get("p05")
        if box.get("increase") is not None:
            said.append(f"Memory of {name} rose by {box['increase']:.3g} percentage points at last.")
        if p95 is not None and p95 < _WIDE_PCT:
            said.append(f"Memory of {name} is half empty: 95 % of its readings are {percent(p95)} or less.")
        if p95 is not None and p5 is not None and p95 - p5 > _WIDE_PCT:
            said.append(f"Memory of {name} fluctuates between {percent(p5)} and {percent(p95)}.")
    drawn = [charts.boxes("Memory of GPUs", boxes)] if boxes else []
    return _Section(said, drawn)


_SECTIONS: dict[str, tuple[str, Callable[[RuleResult], _Section]]] = {
    "StepOutlier": ("Duration of steps", _steps),
    "LowGPUUtilization": ("Use of each GPU", _gpus),
    "LoadBalancing": ("Balance of the load", _balance),
    "Dataloader": ("Data loading", _loading),
    "BatchSize": ("Batch size", _batch),
    "CPUBottleneck": ("CPU bottlenecks", _bottlenecks("cpu_threshold", "the CPU")),
    "IOBottleneck": ("I/O bottlenecks", _bottlenecks("io_threshold", "I/O wait of a core")),
    "GPUMemoryIncrease": ("GPU memory", _memory),
}
"""The rules, in the order of SageMaker's report."""


def most_fired(rules: Iterable[RuleResult]) -> Markup:
    """Name the rule that fired most often, with its numbers of checks and of judged values."""
    fired = max(rules, key=lambda rule: rule.get("triggered") or 0, default=None)
    if fired is None or not (times := fired.get("triggered")):
        return Markup()
    seen = coverage(fired).get("points_seen")
    judged = f", at {seen:,} readings or steps" if seen else ""
    checks = counted(fired.get("evaluations") or 0, "check")
    text = f" fired most often: {counted(times, 'time')} in {checks}{judged}."
    return tag("p", prose(fired["name"]), text)
