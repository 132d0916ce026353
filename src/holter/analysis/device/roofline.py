"""Compares the achieved FLOP per second of operators with the device's peaks: roofline and MFU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holter.analysis.device.flops import bandwidth, peak
from holter.analysis.device.judged_steps import judged
from holter.analysis.device.operator_costs import KNOWN, operator_cost
from holter.analysis.host.operator_tree import device_time, host
from holter.schema.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.analysis.device.operator_costs import Cost
    from holter.analysis.host.operator_tree import Host

_COLUMNS = {
    "name": object, "calls": np.int64, "flops": np.int64, "bytes": np.int64, "device_ns": np.int64,
    "host_ns": np.int64, "side": object, "tflops": float, "intensity": float, "peak_pct": float,
    "bound": object,
}  # fmt: skip


def roofline(
    tables: Mapping[str, Table], device: str = "", definition: str = "all", *, on_host: bool = False
) -> Table:
    """Relate the cost of each known operator to the time that it took.

    Args:
        tables: `operators` with their details (record_shapes=True), `launches`, `kernels`,
            `memory_operations`, `syncs`.
        device: Its name, for the peaks; unknown ones leave `bound` empty.
        definition: As for `operator_cost`.
        on_host: The operators ran on the CPU: their time is that from begin to end on their thread, not that
            of the kernels that they launched.

    Returns:
        name, calls, flops, bytes, device_ns (of its kernels, summed), host_ns (from begin to end, summed),
        side (host or device: whose time counts), tflops (per second of it; NaN without any), intensity (FLOP
        per byte), peak_pct (of the compute peak in that precision; NaN where it is not known), bound (compute
        or memory; empty where a peak is not known), the longest first. Calls of one name and cost are one
        row.
    """
    tree = host(tables)
    ran, lasted = device_time(tree, tables), tree.total_ns
    rows: dict[tuple[str, Cost], list[int]] = {}
    for i, name, cost in _costs(tree, tables, definition):
        known = rows.setdefault((name, cost), [0, 0, 0])
        known[0] += 1
        known[1] += int(ran[i])
        known[2] += int(lasted[i])
    speed = bandwidth(device)
    found = []
    for (name, cost), (calls, *times) in rows.items():
        ns = times[on_host]
        top = peak(device, cost.precision) if device and cost.precision in ("bf16", "fp16") else None
        tflops = cost.flops * calls / ns / 1e3 if ns else float("nan")
        intensity = cost.flops / cost.bytes if cost.bytes else float("nan")
        bound = ""
        if top and speed and cost.bytes:
            bound = "compute" if intensity >= top / speed else "memory"
        share = 100.0 * tflops * 1e12 / top if top else float("nan")
        side = "host" if on_host else "device"
        sums = min(cost.flops * calls, 2**62), min(cost.bytes * calls, 2**62)
        found.append((name, calls, *sums, *times, side, tflops, intensity, share, bound))
    table = Table.of_tuples(_COLUMNS, found)
    return table.where(np.argsort(-table["host_ns" if on_host else "device_ns"], kind="stable"))


def _costs(tree: Host, tables: Mapping[str, Table], definition: str) -> Iterator[tuple[int, str, Cost]]:
    """Yield event, name and cost of each operator whose cost is known, but for what is part of another one.

    A convolution may be made of products, which its own cost has already.
    """
    details = tables["operators"]["detail"] if "operators" in tables else np.empty(0, object)
    wanted = [i for i, name in enumerate(tree.names) if name in KNOWN]
    known: dict[tuple[str, str], Cost | None] = {}
    found: dict[int, tuple[str, Cost]] = {}
    for i in np.flatnonzero(np.isin(tree.name, wanted) & (tree.row >= 0)).tolist():
        key = (tree.names[tree.name[i]], details[tree.row[i]])
        if key not in known:
            known[key] = operator_cost(*key, definition)
        cost = known[key]
        if cost is not None:
            found[i] = key[0], cost
    for i, one in found.items():
        at = int(tree.parent[i])
        while at >= 0 and at not in found:
            at = int(tree.parent[at])
        if at < 0:
            yield i, *one


class Utilization(NamedTuple):
    """Utilization of a device's peak compute rate."""

    flops: int
    """Of the known operators, recomputation included."""
    window_ns: int
    devices: int
    peak: float
    """FLOP a second of one device, in the precision in which most is computed."""
    precision: str

    @property
    def mfu_pct(self) -> float:
        """FLOP done over FLOP possible, percent."""
        possible = self.peak * self.window_ns / 1e9 * self.devices
        return 100.0 * self.flops / possible if possible > 0 else 0.0


def utilization(tables: Mapping[str, Table], device: str, tree: Host | None = None) -> Utilization | None:
    """Compute the model's FLOP utilization; None where shapes, the device or its peak are not known.

    `tree` is the result of `host`, if it is already computed.
    """
    tree = host(tables) if tree is None else tree
    by_precision: dict[str, int] = {}
    windows = judged(tables)
    inside = np.zeros(len(tree.begin), dtype=bool)
    spans = tables.get("spans") or Table.empty("spans")
    stepped = set(spans["rank"][spans["phase"] == "step"].tolist())
    for rank, begin, end in windows:
        within = (tree.begin >= begin) & (tree.begin < end) if rank in stepped else True
        inside[(tree.rank == rank) & within] = True
    for i, _, cost in _costs(tree, tables, "all"):
        if inside[i]:
            by_precision[cost.precision] = by_precision.get(cost.precision, 0) + cost.flops
    if not by_precision:
        return None
    precision = max(by_precision, key=lambda word: by_precision[word])
    top = peak(device, precision) if precision in ("bf16", "fp16") else None
    window = int(np.mean([end - begin for _, begin, end in windows]))
    if top is None or not window:
        return None
    return Utilization(sum(by_precision.values()), window, len(windows), top, precision)
