"""Floating-point operations of a training step, and peak rates by device name."""

from __future__ import annotations

import re

_DEVICES: dict[str, tuple[float | None, float | None]] = {
    "GB300": (2500.0, None),
    "GB200": (2500.0, 8.0),
    "B300": (2250.0, 8.0),
    "B200": (2250.0, 8.0),
    "H200": (989.0, 4.8),
    "H100 NVL": (835.0, 3.9),
    "H100 PCIE": (756.0, 2.0),
    "H100": (989.0, 3.35),
    "H20": (148.0, None),
    "A100 SXM4 80GB": (312.0, 2.04),
    "A100 80GB PCIE": (312.0, 1.94),
    "A100": (312.0, 1.56),
    "A6000": (154.85, None),
    "V100": (None, 0.9),
    "MI355X": (2500.0, None),
    "MI325X": (1300.0, 6.0),
    "MI300X": (1300.0, 5.3),
}
"""Part of a device's name → dense 16-bit TFLOP/s, and TB/s of its memory, by the makers; the first match
counts."""


def peak(device: str, precision: str = "bf16") -> float | None:
    """Return how many operations a second a device can do; None for an unknown device.

    Args:
        device: The name its driver gives, as `NVIDIA H100 80GB HBM3`.
        precision: bf16, fp16 (the same), or tf32 (half).
    """
    teraflops = _figures(device)[0]
    return None if teraflops is None else teraflops * 1e12 * (0.5 if precision == "tf32" else 1.0)


def bandwidth(device: str) -> float | None:
    """Return the bytes a second of a device's memory; None for an unknown device."""
    terabytes = _figures(device)[1]
    return None if terabytes is None else terabytes * 1e12


def _figures(device: str) -> tuple[float | None, float | None]:
    text = " ".join(re.sub(r"[-_]", " ", device).upper().split())
    found = (of for name, of in _DEVICES.items() if re.search(rf"(?<![A-Z0-9]){name}(?![0-9])", text))
    return next(found, (None, None))


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
