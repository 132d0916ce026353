"""A look at a few steps names what their operators do: many small ones, or float64, or nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import TRAININGS, environment, holter

SCRIPT = TRAININGS / "operators.py"
CASES = {
    "tiny": (
        "framework_overhead",
        r"Dispatch overhead takes \d+ % of each step: 1,8\d\d operators of .* us per step, "
        r"most of them issued by tiny \(operators\.py:\d+\)\.",
    ),
    "items": (
        "framework_overhead",
        r"Dispatch overhead takes .*: [23],\d\d\d operators of .* issued by items \(operators\.py:26\)\.",
    ),
    "double": (
        "model_compute",
        r"Computation in float64 takes \d+ % of each step, most of it aten::(add)?mm with inputs \[.*\], "
        r"issued by main \(operators\.py:\d+\)\.",
    ),
}


def judged(case: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Run a case; returns its description, and the sum of the weights."""
    words = (
        "run",
        "--store",
        "store",
        "--job",
        "it",
        "--look",
        "always",
        "--",
        sys.executable,
        str(SCRIPT),
        case,
    )
    holter(*words, cwd=folder)
    told = json.loads(holter("describe", "it", "--store", "store", "--json", cwd=folder).stdout)
    assert told["cost"]["faults"] == []
    return told, json.loads((folder / "told.json").read_text())["weights"]


@pytest.mark.parametrize("case", CASES)
def test_operators_are_named(tmp_path: Path, case: str) -> None:
    suspect, sentence = CASES[case]
    told, _ = judged(case, tmp_path)
    verdict = told["verdict"]
    assert verdict["suspect"] == suspect, verdict
    assert re.search(sentence, verdict["sentence"]), verdict["sentence"]
    assert verdict["advice"]
    if case == "items":
        (read,) = [one for one in verdict["evidence"] if one["metric"] == "operators.item"]
        assert 600 <= read["value"] <= 602  # the recorder reads the loss


def test_a_training_of_products_is_healthy_and_its_numbers_stay(tmp_path: Path) -> None:
    told, weights = judged("plain", tmp_path)
    verdict = told["verdict"]
    assert verdict["suspect"] in ("healthy", "contention"), verdict
    (top,) = [one for one in verdict["evidence"] if one["metric"] == "operators.top"]
    assert re.search(r"aten::(add)?mm takes .* with inputs \[.*\], issued by main", top["text"]), top
    subprocess.run([sys.executable, str(SCRIPT), "plain"], cwd=tmp_path, env=environment(), check=True)
    assert json.loads((tmp_path / "told.json").read_text())["weights"] == weights
