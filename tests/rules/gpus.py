"""Readings of GPUs."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import samples


def gpus(count=600, *, each=1, **metrics):
    """Samples of `each` GPUs: metric (with _ for .) → one value, or values for each GPU."""
    series = {}
    for name, value in metrics.items():
        for i in range(each):
            one = value[i] if isinstance(value, list) else value
            series["gpu." + name, f"gpu{i}"] = np.broadcast_to(one, count).astype(float)
    return samples(series)
