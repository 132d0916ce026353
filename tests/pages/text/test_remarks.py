"""What a report remarks on machines and on how training divides."""

from __future__ import annotations

import pytest

from holter.pages.text.remarks import division, load


def _row(metric: str, p50: float, p95: float, device: str = "") -> dict[str, object]:
    return {"node": "n0", "metric": metric, "p50": p50, "p95": p95, "device": device}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], ""),
        ([_row("cpu.util", 80, 90)], "The CPU of n0 is well used, by all that ran there: 80.0 % (median)"),
        ([_row("cpu.util", 20, 40)], "The CPU of n0 is busy 20.0 % (median), 40.0 % (p95)."),
        ([_row("cpu.util", 20, 40), _row("gpu.util", 85, 95)], "The GPUs of n0 are well used: 85.0 %"),
        ([_row("cpu.util", 20, 40), _row("gpu.util", 30, 50)], "n0 is used too little: GPUs 50.0 %"),
        ([_row("cpu.util", 80, 90), _row("gpu.util", 30, 50)], "a busy CPU may hold them up"),
        ([_row("cpu.util", 80, 90), _row("gpu.util", 60, 80)], "60.0 % busy in the median, the CPU 80.0 %"),
        ([_row("gpu.util", 30, 50)], "The GPUs of n0 are 30.0 % busy in the median."),
        ([_row("cpu.util", 80, 90, device="trainer")], ""),
    ],
)
def test_the_load_of_a_node(rows: list[dict[str, object]], said: str) -> None:
    text = load(rows)
    assert said in text
    assert bool(text) == bool(said)


def test_a_pass_that_dwarfs_the_other_is_told_and_time_between_steps() -> None:
    rule = {"rule": "OverallFrameworkMetrics", "details": {"phase_pct": {"train": 60.0, "others": 40.0}}}
    told = {"rules": [rule], "breakdown": {"forward": 10.0, "backward": 40.0}}
    text = division(told, lambda figure: figure.title)
    assert "40.0 % of the time lies between steps" in text
    assert "backward takes 80.0 %. The two passes are far from equal." in text
    assert division({"rules": [], "breakdown": None}, lambda figure: figure.title) == ""
