"""The GPU kit: whatever a check meets becomes its result, and all results are written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from gpu_kit import __main__ as kit
from gpu_kit.checks import CHECKS
from gpu_kit.results import NotAvailableError, Result, WrongError, as_json, as_markdown
from gpu_kit.running import Kit


def test_without_a_gpu_each_check_says_so():
    for name in CHECKS:
        made = kit.tried(name, None)
        assert (made.status, made.why) == ("not available", "no NVIDIA GPU")
        assert made.about


@pytest.mark.parametrize(
    ("raised", "status", "why", "figures"),
    [
        (None, "measured", "", {"a, ms": 1.5}),
        (NotAvailableError("no NCCL"), "not available", "no NCCL", {}),
        (WrongError("too short", {"b": 2}), "failed", "too short", {"b": 2}),
        (ZeroDivisionError("x"), "failed", "ZeroDivisionError: x", {}),
    ],
)
def test_what_a_check_meets_is_its_result(raised, status, why, figures, monkeypatch, tmp_path):
    def check(_):
        """Something."""
        if raised is not None:
            raise raised
        return {"a, ms": 1.5}

    monkeypatch.setitem(CHECKS, "planted", check)
    made = kit.tried("planted", Kit(tmp_path, "cpu"))
    assert (made.status, made.why, made.figures) == (status, why, figures)


def test_results_as_json_and_as_a_table():
    results = [
        Result("a", "First", "measured", figures={"x, ms": 1.23456, "y": None}, seconds=61.4),
        Result("b", "Second", "failed", "one | two\nthree"),
    ]
    document = json.loads(as_json({"gpu": None}, results))
    assert [one["check"] for one in document["results"]] == ["a", "b"]
    assert document["results"][0]["figures"] == {"x, ms": 1.23456, "y": None}
    page = as_markdown({"gpu": None}, results)
    assert "| a: First | measured | x, ms 1.235; y missing | 61 |" in page
    assert "| b: Second | failed: one / two three |  | 0 |" in page


def test_a_training_of_the_kit_that_fails_is_told(tmp_path):
    with pytest.raises(RuntimeError, match="ends with 1: "):
        Kit(tmp_path, "no-device")._run([sys.executable, "-c", "raise SystemExit('broken')"])


def test_a_rehearsal_reads_the_stand_ins_and_leaves_a_job(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu-kit", "--rehearse", "--into", str(tmp_path), "--only", "nvml"])
    kit.main()
    page = (tmp_path / "gpu-kit.md").read_text()
    assert "power.draw, holter 612.3; power.draw, nvidia-smi 612.3" in page
    made = kit.tried("xgboost", Kit(tmp_path, "cpu"))
    assert (made.status, made.figures["ran on"], made.figures["steps"]) == ("measured", "cpu", 40), made.why
    assert (tmp_path / "jobs/xgboost/job.json").exists()
