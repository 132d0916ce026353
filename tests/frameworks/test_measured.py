"""What recording costs: the page of each framework has the numbers of a benchmark, and names it."""

from __future__ import annotations

import re

import pytest
from tests.jobs.starting import ROOT


def measured(framework: str, page: str, benchmark: str, training: str) -> object:
    """Return a parameter that claims the cost of a framework."""
    claim = pytest.mark.capability(framework, "cost")
    return pytest.param(page, benchmark, training, marks=claim, id=framework)


@pytest.mark.parametrize(
    ("page", "benchmark", "training"),
    [
        measured("XGBoost", "record-boosted-trees", "boosting", "xgboost, short rounds"),
        measured("LightGBM", "record-boosted-trees", "boosting", "lightgbm, short rounds"),
        measured("CatBoost", "record-boosted-trees", "boosting", "catboost, short rounds"),
        measured("scikit-learn", "record-scikit-learn", "boosting", "scikit-learn, short rounds"),
        measured("Keras on torch", "record-keras", "keras_on_torch", "short batches"),
    ],
)
def test_a_page_has_the_measured_ratio(page: str, benchmark: str, training: str) -> None:
    text = (ROOT / f"docs/how-to/{page}.md").read_text()
    assert f"`python benchmarks/{benchmark}.py" in text
    assert (ROOT / f"benchmarks/{benchmark}.py").exists()
    (row,) = re.findall(rf"^\| {re.escape(training)} \|.*$", text, re.MULTILINE)
    ratios = [float(found) for found in re.findall(r"\| (\d\.\d{3}) \(\d\.\d{3} to \d\.\d{3}\)", row)]
    assert len(ratios) >= 2, row
    assert re.search(r"load \d", text), "the load of the machine while it was measured"
