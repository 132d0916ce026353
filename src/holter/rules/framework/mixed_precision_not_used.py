"""MixedPrecisionNotUsed: matrix products do not use the tensor cores."""

from __future__ import annotations

import re

import numpy as np

from holter.analysis.device.kernel_names import product
from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.rules.patterns.gpu_owners import READS, ours, owners
from holter.rules.patterns.profiled import HOW, LOOKBACK_S, Profiled, profiled

_GAIN = 4.0
"""How much faster products are at least in TF32 or BF16, on cards of the A100's class."""
_WITHOUT = re.compile(
    r"\b(K20|K40|K80|M40|M60|M2000|P4|P40|P100|P4000|P5000|P6000|GTX|TITAN X|TITAN XP|MI25|MI50|MI60)\b"
)
"""Cards without tensor or matrix cores."""
_TF32 = re.compile(
    r"\b(A100|A800|A30|A10|A40|A16|A2|A6000|A5000|A4000|H100|H200|H800|H20|L4|L40S?|G?B[23]00)\b|RTX [345]0"
)


@rule_class
class MixedPrecisionNotUsed(Rule):
    """Most of a device's time goes into matrix products, few of them in reduced precision."""

    reads = (
        "kernels",
        "memory_operations",
        "steps",
        "samples/gpu.sm_active",
        "samples/gpu.tensor_active",
        READS,
    )
    formula = (
        "matrix products and convolutions >= products_pct of the kernel time, and less than reduced_pct of "
        "that in reduced precision; or by counters: sm_active >= 60 % and tensor_active < 5 % for 5 minutes"
    )
    advice = "Train under torch.autocast with bfloat16, or call torch.set_float32_matmul_precision('high')."
    packs = ("deep_trace",)
    lookback = Lookback(seconds=LOOKBACK_S)

    products_pct: float = parameter(40.0, low=0, high=100, unit="%")
    """Smallest share of kernel time in matrix products and convolutions that is judged."""
    reduced_pct: float = parameter(20.0, low=0, high=100, unit="%")
    """A smaller share of that time in reduced precision is a warning."""
    min_steps: int = parameter(5, low=1, unit="steps")
    """Minimum number of profiled steps; fewer are not judged."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each profiled device by its kernel names; without kernels, by counters."""
        found = profiled(window, self.min_steps)
        for one in found:
            model = window.job.gpu_model(one.node, f"gpu{one.device}")
            if _WITHOUT.search(model.upper()):
                window.insufficient("no_match", f"{model} has no tensor cores")
                continue
            yield from self._judge(window, one, model)
        if not found:
            yield from self._counters(window)

    def _judge(self, window: Window, one: Profiled, model: str) -> Issues:
        rows = one.kernels.where(one.kernels["kind"] == "compute")
        names, where = np.unique(rows["name"].astype(str), return_inverse=True)
        time = np.bincount(where, weights=rows["duration"], minlength=len(names))
        by: dict[str, float] = {}
        reduced = 0.0
        for name, ns in zip(names.tolist(), time.tolist(), strict=True):
            kind = product(name)
            if kind is not None:
                by[kind.precision or "unknown"] = by.get(kind.precision or "unknown", 0.0) + ns
                reduced += ns if kind.reduced else 0.0
        total, products = float(time.sum()), sum(by.values())
        window.judged(len(one.begin))
        # A kernel whose name does not show its precision counts as reduced precision.
        reduced += by.get("unknown", 0.0)
        if total <= 0 or 100.0 * products < self.products_pct * total:
            return
        if 100.0 * reduced >= self.reduced_pct * products:
            return
        share = products / total
        code = "no_autocast"
        if by.get("fp64", 0.0) >= 0.5 * products:
            code = "fp64"
        elif _TF32.search(model.upper()):
            code = "fp32_no_tf32"
        yield self.issue(
            f"{100 * share:.0f} % of the kernel time of rank {one.rank} is matrix products, "
            f"{100 * reduced / products:.0f} % of them in reduced precision",
            code=code,
            **one.about,
            evidence={
                "products_pct": 100.0 * share,
                "reduced_pct": 100.0 * reduced / products,
                "products_pct_by_precision": {k: 100.0 * ns / products for k, ns in sorted(by.items())},
                "possible_speedup": 1.0 / ((1.0 - share) + share / _GAIN),
                "model": model,
            },
            advice="Use float32: double precision is many times slower." if code == "fp64" else self.advice,
        )

    def _counters(self, window: Window) -> Issues:
        active, tensor = window.series("gpu.sm_active"), window.series("gpu.tensor_active")
        for place in ours(active.keys() & tensor.keys(), owners(window)):
            series = active[place]
            if int(series.time[-1] - series.time[0]) < 0.9e9 * LOOKBACK_S:
                continue
            window.judged(len(series.value))
            busy, cores = float(np.median(series.value)), float(np.median(tensor[place].value))
            if busy >= 60 and cores < 5:
                yield self.issue(
                    f"the tensor cores of {place[1]} are busy {cores:.1f} % of the time, its multiprocessors "
                    f"{busy:.0f} %",
                    code="counters",
                    node=place[0],
                    device=place[1],
                    time_end=window.end,
                    evidence={"sm_active_pct": busy, "tensor_active_pct": cores},
                )
        if not window.points:
            window.insufficient(
                "no_input", f"neither kernels nor counters of the tensor cores were recorded: {HOW}"
            )
