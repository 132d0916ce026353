"""Rows as recorders write them, one per second, for tests of users' rules."""

from __future__ import annotations

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def scalars(rank=0, **series):
    return [
        {"time": START + (i + 1) * SECOND, "rank": rank, "step": i, "name": name, "value": value, "node": "n"}
        for name, values in series.items()
        for i, value in enumerate(values)
        if value is not None
    ]


def tensors(name, stds, **more):
    return [
        {
            "time": START + (i + 1) * SECOND,
            "rank": 0,
            "step": i,
            "name": name,
            "count": 4,
            "mean": 0.0,
            "std": std,
            "min": -std,
            "max": std,
            **more,
        }
        for i, std in enumerate(stds)
    ]


def readings(metric, values, device="gpu0", every_s=1.0):
    return [
        {
            "time": START + round((i + 1) * every_s * SECOND),
            "metric": metric,
            "device": device,
            "value": value,
            "node": "n",
        }
        for i, value in enumerate(values)
    ]
