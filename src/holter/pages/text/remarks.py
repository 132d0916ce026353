"""Remarks on the load of machines and on how training divides, where the numbers call for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.drawing.markup import html, tag
from holter.pages.text import measured_charts as charts
from holter.pages.text.sections import bullets
from holter.views.wording import percent, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from markupsafe import Markup

    from holter.views.figure import Figure

_BUSY_PCT = 70.0
_UNEQUAL_PCT = 70.0
_MUCH_OUTSIDE_PCT = 25.0
_MOST_NODES = 32


def load(told: Mapping[str, Any]) -> Markup:
    """Describe how well each node was used; nodes without readings are left out."""
    of: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in told["utilization"]:
        if row["metric"] in ("cpu.util", "gpu.util") and row["p95"] is not None and not row.get("device"):
            of.setdefault(str(row["node"]), {})[row["metric"]] = row
    return bullets(said for node, rows in list(of.items())[:_MOST_NODES] for said in _used(node, rows))


def _used(node: str, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    cpu, gpu = rows.get("cpu.util"), rows.get("gpu.util")
    if gpu is None:
        if cpu is not None and cpu["p95"] > _BUSY_PCT:
            used = f"{percent(cpu['p50'])} (median), {percent(cpu['p95'])} (p95)"
            yield f"The CPU of {node} is well used, by all that ran there: {used}."
        elif cpu is not None:
            yield f"The CPU of {node} is busy {percent(cpu['p50'])} (median), {percent(cpu['p95'])} (p95)."
    elif gpu["p50"] > _BUSY_PCT:
        yield f"The GPUs of {node} are well used: {percent(gpu['p50'])} in the median."
    elif cpu is not None and gpu["p95"] < _BUSY_PCT:
        read = f"GPUs {percent(gpu['p95'])}, CPU {percent(cpu['p95'])} at p95"
        if cpu["p95"] > _BUSY_PCT:
            yield f"{node}: {read}. The GPUs are used too little, and a busy CPU may hold them up."
        else:
            yield f"{node} is used too little: {read}. A smaller machine may do, or a larger batch fit."
    else:
        also = "" if cpu is None else f", the CPU {percent(cpu['p50'])}"
        yield f"The GPUs of {node} are {percent(gpu['p50'])} busy in the median{also}."


def division(told: Mapping[str, Any], draw: Callable[[Figure], str]) -> Markup:
    """Draw how training divides into modes and passes, into work of CPU and GPUs and of Horovod."""
    ran = (
        rule.get("details") or {} for rule in told["rules"] if rule.get("rule") == "OverallFrameworkMetrics"
    )
    found: Mapping[str, Any] = next(ran, {})
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
