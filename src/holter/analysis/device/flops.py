"""Floating-point operations of a training step, and peak rates by device name."""

from __future__ import annotations

import re

PEAKS: dict[str, float] = {
    "GB300": 2500.0,
    "GB200": 2500.0,
    "B300": 2250.0,
    "B200": 2250.0,
    "H200": 989.0,
    "H100 NVL": 835.0,
    "H100 PCIE": 756.0,
    "H100": 989.0,
    "H20": 148.0,
    "A100": 312.0,
    "A6000": 154.85,
    "MI355X": 2500.0,
    "MI325X": 1300.0,
    "MI300X": 1300.0,
}
"""Dense 16-bit TFLOP/s by a part of the device's name, by the makers; the first to fit counts."""


def peak(device: str, precision: str = "bf16") -> float | None:
    """Return how many operations a second a device can do; None for one that is not known.

    Args:
        device: The name its driver gives, as `NVIDIA H100 80GB HBM3`.
        precision: bf16, fp16 (the same), or tf32 (half).
    """
    text = " ".join(re.sub(r"[-_]", " ", device).upper().split())
    for name, teraflops in PEAKS.items():
        if re.search(rf"(?<![A-Z0-9]){name}(?![0-9])", text):
            return teraflops * 1e12 * (0.5 if precision == "tf32" else 1.0)
    return None


def transformer_flops(
    parameters: float,
    tokens: float,
    *,
    layers: float = 0,
    hidden: float = 0,
    sequence: float = 0,
    causal: bool = False,
) -> float:
    """Return the operations of one step of a dense transformer, forward and backward.

    6·N·T for the weights and 12·L·H·S·T for attention (PaLM, appendix B), the latter halved for causal
    kernels that skip what is masked. Recomputation does not count.

    Args:
        parameters: Active parameters, N.
        tokens: Tokens of the step, T.
        layers: L.
        hidden: Hidden size, H.
        sequence: Length of a sequence, S.
        causal: Whether masked blocks are skipped.
    """
    attention = 12.0 * layers * hidden * sequence * tokens
    return 6.0 * parameters * tokens + attention * (0.5 if causal else 1.0)
