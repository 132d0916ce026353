"""LowMFU: the model uses a small share of the GPU's peak performance (MFU)."""

from __future__ import annotations

import numpy as np

from holter.analysis.device.flops import peak, transformer_flops
from holter.rules import Issues, Lookback, Rule, Table, Window, parameter, rule_class
from holter.rules.engine.job_facts import steps_span
from holter.rules.engine.levels import grade
from holter.rules.patterns.ranks import by_rank

_LARGE = 1e9
_OTHERS = {"info": None, "warning": 10.0, "critical": 3.0}
"""Limits for models other than large transformers."""


@rule_class
class LowMFU(Rule):
    """The model's operations are a small share of what its devices can compute in the same time."""

    reads = ("steps", "scalars/flops", "scalars/tokens")
    formula = (
        "MFU = operations per step and device / (median step time x peak of the device) < info, warning, or"
        " critical for transformers with 1e9 parameters or more; < 10 % or 3 % for other models"
    )
    advice = (
        "Find where the time goes: data loading, communication, kernel launches, or slow kernels. A GPU "
        "with 100 % utilization may compute at 5 % of its peak."
    )
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2
    lookback = Lookback(steps=200, seconds=600.0)

    info: float | None = parameter(40.0, above=0, high=100, unit="%")
    """A lower MFU of a large transformer is a note."""
    warning: float | None = parameter(30.0, above=0, high=100, unit="%")
    """A lower MFU of a large transformer is a warning."""
    critical: float | None = parameter(15.0, above=0, high=100, unit="%")
    """A lower MFU of a large transformer is critical."""
    flops_per_step: float | None = parameter(None, above=0, unit="operations")
    """Operations of one step on one device; none = the scalar `flops`."""
    peak_tflops: float | None = parameter(None, above=0, unit="TFLOP/s")
    """Peak performance of the device; none = looked up by its name."""
    precision: str = parameter("bf16", choices=("bf16", "fp16", "tf32"))
    """Precision in which the model computes."""
    model_parameters: float | None = parameter(None, above=0)
    """Active parameters of a transformer; with the scalar `tokens` they give the operations."""
    layers: float = parameter(0.0, low=0)
    """Number of layers, for the operations of attention."""
    hidden: float = parameter(0.0, low=0)
    """Hidden size, for the operations of attention."""
    sequence: float = parameter(0.0, low=0, unit="tokens")
    """Sequence length, for the operations of attention."""
    causal: bool = parameter(False)
    """Whether attention skips masked positions."""
    min_steps: int = parameter(50, low=1, unit="steps")
    """Minimum number of steps after warm-up; fewer are not judged."""

    def evaluate(self, window: Window) -> Issues:
        """Judge the ranks together: the median of their MFU."""
        if window.unchanged("steps"):
            return
        steps = window.steady
        logged, tokens = by_rank(window.scalars, "flops"), by_rank(window.scalars, "tokens")
        shares: dict[int, float] = {}
        for rank in np.unique(steps["rank"]).tolist():
            own = steps.where(steps["rank"] == rank)
            flops = self.flops_per_step
            if flops is None and rank in logged:
                flops = float(np.median(logged[rank].value))
            elif flops is None and self.model_parameters is not None and rank in tokens:
                flops = self._transformer(float(np.median(tokens[rank].value)))
            best = self._peak(window, str(own["node"][0]))
            if flops is None:
                text = (
                    "log `flops` of each step, or give flops_per_step, or model_parameters and log `tokens`"
                )
                window.insufficient("no_input", text)
            elif best is None:
                window.insufficient(
                    "no_match", "the peak performance of the device is unknown; set peak_tflops"
                )
            elif own.rows < self.min_steps:
                window.too_few("too few steps in steady state", own.rows, self.min_steps)
            else:
                window.judged(own.rows)
                shares[int(rank)] = 100.0 * flops / (float(np.median(own["duration"])) / 1e9 * best)
        if shares:
            yield from self._judge(steps, shares)
        elif window.lack is None:
            window.insufficient("no_input", "no step after warm-up")

    def _judge(self, steps: Table, shares: dict[int, float]) -> Issues:
        mfu = float(np.median(list(shares.values())))
        large = (self.model_parameters or 0.0) >= _LARGE
        limits = {"info": self.info, "warning": self.warning, "critical": self.critical} if large else _OTHERS
        severity = grade(-mfu, **{name: None if v is None else -v for name, v in limits.items()})
        if severity is not None:
            total = float(steps["duration"].sum())
            parts = ("data_loading", "h2d", "communication", "checkpoint", "eval")
            waterfall = {part: 100.0 * float(steps[part].sum()) / total for part in parts}
            lost = 100.0 - mfu - sum(waterfall.values())
            yield self.issue(
                f"the model uses {mfu:.1f} % of the peak performance of its devices (MFU)",
                severity=severity,
                **steps_span(steps),
                evidence={
                    "mfu_pct": mfu,
                    "waterfall_pct": {"model": mfu, **waterfall, "kernels_and_launches": lost},
                    "mfu_pct_by_rank": {str(rank): share for rank, share in list(shares.items())[:64]},
                },
            )

    def _transformer(self, tokens: float) -> float:
        return transformer_flops(
            self.model_parameters or 0.0,
            tokens,
            layers=self.layers,
            hidden=self.hidden,
            sequence=self.sequence,
            causal=self.causal,
        )

    def _peak(self, window: Window, node: str) -> float | None:
        """Return the peak of a node's devices in operations per second; None if they differ."""
        if self.peak_tflops is not None:
            return self.peak_tflops * 1e12
        names = {str(gpu.get("name")) for gpu in window.job.nodes.get(node, {}).get("gpus") or ()}
        return peak(names.pop(), self.precision) if len(names) == 1 else None
