"""Times of parts on the GPU are summed over lines and ranks; damaged lines are left out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from holter.analysis.steps.gpu_times import gpu_times
from holter.schema.table import Table


def events(*details):
    rows = len(details)
    return Table(
        {
            "time": np.arange(rows),
            "rank": np.zeros(rows, np.int32),
            "kind": np.array(["gpu_time"] * rows, object),
            "name": np.array([""] * rows, object),
            "detail": np.array([one if isinstance(one, str) else json.dumps(one) for one in details], object),
        }
    )


def line(steps, left_out=0, **parts):
    times = {part: {"gpu": gpu * 10**6, "host": host * 10**6} for part, (gpu, host) in parts.items()}
    return {"steps": steps, "parts": times, "left_out": left_out}


def test_means_over_lines():
    found = gpu_times(
        events(
            line(1, step=(20, 12), forward=(8, 2)),
            line(3, 2, step=(60, 36), forward=(16, 2), backward=(28, 8)),
        )
    )
    assert (found.steps, found.left_out, found.gpu_ms, found.host_ms) == (4, 2, 20, 12)
    assert [(one.part, one.gpu_ms, one.host_ms, one.pct) for one in found.parts] == [
        ("forward", 6, 1, 30),
        ("backward", 7, 2, 35),
        ("other", 7, 9, 35),
    ]


@pytest.mark.parametrize(
    "detail",
    ["no json", "[]", {"steps": 1}, {"steps": -1, "parts": {}}, {"steps": 1, "parts": {"step": {"gpu": "x"}}},
     {"steps": 1, "parts": {"step": 3}}, {"steps": True, "parts": {"step": {"gpu": 1, "host": 1}}}],
)  # fmt: skip
def test_damaged_lines_are_left_out(detail):
    assert gpu_times(events(detail)) is None
    assert gpu_times(events(detail, line(2, step=(4, 4)))).steps == 2


def test_none_without_measured_steps():
    assert gpu_times(None) is None
    assert gpu_times(events()) is None
