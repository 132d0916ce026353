"""Tests of the rule LowMFU."""

from __future__ import annotations

import pytest
from tests.rules.tables import SECOND, START, look, steps

from holter.rules import Job
from holter.rules.framework.low_mfu import LowMFU
from holter.schema.table import Table

H100 = {"n0": {"gpus": [{"device": "gpu0", "name": "NVIDIA H100 80GB HBM3"}]}}


SEVEN = {"model_parameters": 7e9, "layers": 32, "hidden": 4096, "sequence": 4096}


def mfu(step_s, *, rule=None, nodes=H100, name="tokens", value=16384.0, count=100):
    table = steps([step_s] * count)
    rows = [
        {"time": t, "rank": 0, "step": i, "mode": "train", "name": name, "value": value, "node": "n0"}
        for i, t in enumerate((table["time"] + table["duration"]).tolist())
    ]
    warm = {0: START + round(10 * step_s * SECOND)}
    job = Job(start=START, first_step=START, warm=warm, nodes=nodes)
    return look(rule or LowMFU.of(SEVEN), job=job, steps=table, scalars=Table.of("scalars", rows))


def test_p21_mfu_of_a_large_transformer():
    issues, _ = mfu(2.2)
    assert [issue.severity for issue in issues] == ["info"]
    assert issues[0].evidence["mfu_pct"] == pytest.approx(36.5, abs=0.05)


@pytest.mark.parametrize(("step_s", "severity"), [(1.9, None), (2.8, "warning"), (6.0, "critical")])
def test_mfu_levels_of_a_large_transformer(step_s, severity):
    issues, _ = mfu(step_s)
    assert [issue.severity for issue in issues] == ([severity] if severity else [])


@pytest.mark.parametrize(("share", "severity"), [(0.2, None), (0.08, "warning"), (0.02, "critical")])
def test_mfu_levels_of_other_models(share, severity):
    issues, window = mfu(0.1, rule=LowMFU(), name="flops", value=share * 989e12 * 0.1)
    assert [issue.severity for issue in issues] == ([severity] if severity else [])
    assert window.points > 0


def test_mfu_without_operations_or_peak_is_not_judged():
    assert mfu(0.1, rule=LowMFU())[1].lack.reason == "no_input"
    assert mfu(0.1, nodes={"n0": {"gpus": []}})[1].lack.reason == "no_match"
    assert mfu(0.1, count=30)[1].lack.reason == "too_few_points"
    issues, _ = mfu(2.2, rule=LowMFU.of({**SEVEN, "peak_tflops": 989}), nodes={})
    assert issues
