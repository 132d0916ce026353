"""Readings of a machine, some of which show a bottleneck."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import samples


def snapshots(metric, bad, count, high=95.0):
    hit = np.arange(count) < bad
    series = {("gpu.util", "gpu0"): np.where(hit, 5.0, 90.0), (metric, "cpu0"): np.where(hit, high, 10.0)}
    return samples({**series, (metric, "cpu1"): np.full(count, 10.0)})
