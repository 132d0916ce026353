"""Tests of the rule UnpinnedH2DCopy."""

from __future__ import annotations

import json

import pytest
from tests.rules.tables import START, codes, found, look, steps
from tests.rules.traces import MS, Trace

from holter.rules.framework.unpinned_h2d_copy import UnpinnedH2DCopy
from holter.schema.table import Table


def copying(*, mib=4, length_ms=0.5, exposed=True, **columns):
    trace = Trace()
    for i in range(10):
        at = i * 10 * MS
        trace.step(at, 10 * MS, i)
        if exposed:
            trace.kernel(at + length_ms * MS, (10 - length_ms) * MS)
        else:
            trace.kernel(at, 10 * MS)
        trace.copy(at, length_ms * MS, bytes=mib << 20, **columns)
    return trace.tables


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({}, [("pageable", "warning")]),
        ({"length_ms": 2.0}, [("pageable", "critical")]),
        ({"exposed": False}, []),
        ({"exposed": False, "mib": 32}, [("pageable", "warning")]),
        ({"memory": "pinned"}, []),
        ({"memory": "pinned", "call": "cudaMemcpy"}, [("blocking_copy", "warning")]),
        ({"length_ms": 0.01, "mib": 1}, []),
        ({"memory": ""}, []),
    ],
)
def test_copies_to_the_device(about, expected):
    assert codes(found(UnpinnedH2DCopy(), **copying(**about))) == expected


@pytest.mark.parametrize(
    ("pin", "share", "expected"),
    [(False, 0.1, "warning"), (False, 0.2, "critical"), (True, 0.1, None), (False, 0.0, None)],
)
def test_a_loader_that_does_not_pin_is_found_without_a_trace(pin, share, expected):
    event = {
        "time": START,
        "rank": 0,
        "kind": "loader",
        "name": "",
        "detail": json.dumps({"pin_memory": pin}),
    }
    issues, _ = look(
        UnpinnedH2DCopy(), events=Table.of("events", [event]), steps=steps([0.1] * 200, h2d=share)
    )
    assert [issue.severity for issue in issues] == ([expected] if expected else [])
