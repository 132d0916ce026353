"""Remarks on the load of machines and on how training divides, where the numbers call for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.drawing.markup import html, tag
from holter.pages.text import measured_charts as charts
from holter.pages.text.sections import bullets
from holter.views.wording import percent, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from markupsafe import Markup

    from holter.views.document.types import Description
    from holter.views.document.types.training import MetricStatistics
    from holter.views.figure import Figure

_BUSY_PCT = 70.0
_UNEQUAL_PCT = 70.0
_MUCH_OUTSIDE_PCT = 25.0
_MOST_NODES = 32


def load(rows: Iterable[MetricStatistics]) -> Markup:
    """Describe how well each node was used; nodes without readings are left out."""
    of: dict[str, dict[str, tuple[float, float]]] = {}
    for row in rows:
        metric, p50, p95 = row["metric"], row["p50"], row["p95"]
        if metric in ("cpu.util", "gpu.util") and p50 is not None and p95 is not None and not row["device"]:
            of.setdefault(row["node"], {})[metric] = (p50, p95)
    return bullets(
        _used(node, mine.get("cpu.util"), mine.get("gpu.util"))
        for node, mine in list(of.items())[:_MOST_NODES]
    )


def _used(node: str, cpu: tuple[float, float] | None, gpu: tuple[float, float] | None) -> str:
    """Describe a node by the median and the p95 of its CPU and its GPUs; one of both is known."""
    if cpu is None:
        cpu_median, cpu_p95, also = "", None, ""
    else:
        cpu_median, cpu_p95 = percent(cpu[0]), cpu[1]
        also = f", the CPU {cpu_median}"
    if gpu is None:
        used = f"{cpu_median} (median), {percent(cpu_p95)} (p95)"
        if cpu_p95 is not None and cpu_p95 > _BUSY_PCT:
            return f"The CPU of {node} is well used, by all that ran there: {used}."
        return f"The CPU of {node} is busy {used}."
    median, p95 = gpu
    if median > _BUSY_PCT:
        return f"The GPUs of {node} are well used: {percent(median)} in the median."
    if cpu_p95 is None or p95 >= _BUSY_PCT:
        return f"The GPUs of {node} are {percent(median)} busy in the median{also}."
    read = f"GPUs {percent(p95)}, CPU {percent(cpu_p95)} at p95"
    if cpu_p95 > _BUSY_PCT:
        return f"{node}: {read}. The GPUs are used too little, and a busy CPU may hold them up."
    return f"{node} is used too little: {read}. A smaller machine may do, or a larger batch fit."


def division(told: Description, draw: Callable[[Figure], str]) -> Markup:
    """Draw how training divides into modes and passes, into work of CPU and GPUs and of Horovod."""
    ran = (
        rule.get("details") or {} for rule in told["rules"] if rule.get("rule") == "OverallFrameworkMetrics"
    )
    found = next(ran, {})
    said = []
    outside = (found.get("phase_pct") or {}).get("others")
    if outside is not None and outside > _MUCH_OUTSIDE_PCT:
        said.append(f"{percent(outside)} of the time lies between steps: look at what happens there.")
    passes = {part: (told["breakdown"] or {}).get(part) or 0.0 for part in ("forward", "backward")}
    if all(passes.values()):
        larger = max(passes, key=lambda part: passes[part])
        share = 100 * passes[larger] / sum(passes.values())
        uneven = " The two passes are far from equal." if share > _UNEQUAL_PCT else ""
        said.append(f"Of forward and backward together, {larger} takes {percent(share)}.{uneven}")
    if horovod := found.get("horovod"):
        most = max(horovod, key=lambda name: horovod[name])
        said.append(f"Of what Horovod did, {words(most)} took most: {percent(horovod[most])}.")
    drawn = html(*(draw(one) for one in charts.shares("", {**found, "general": {}, "CPU": {}, "GPU": {}})))
    return bullets(said) + (tag("div", drawn, class_="charts") if drawn else "")
