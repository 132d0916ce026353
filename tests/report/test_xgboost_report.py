"""The XGBoost training report of real trainings, recorded without a changed line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import TRAININGS, holter

ALWAYS = (
    "Distribution of true labels",
    "Loss and metrics per round",
    "Feature importance",
    "Hyperparameters",
)
OF_CLASSES = ("Confusion matrix", "Evaluation of the confusion matrix", "Accuracy of each class per round")
SECTIONS = {
    "binary": (*ALWAYS, *OF_CLASSES, "ROC curve"),
    "multiclass": (*ALWAYS, *OF_CLASSES),
    "regression": (*ALWAYS, "Absolute error per interval of labels and round", "Residuals"),
}


@pytest.mark.capability("XGBoost", tensors="labels, predictions")
@pytest.mark.parametrize("kind", SECTIONS)
def test_the_report_has_the_sections_of_its_kind(tmp_path: Path, kind: str) -> None:
    script = str(TRAININGS / "boosting.py")
    holter(
        *("run", "--store", "store", "--job", "it", "--rule", "CreateXgboostReport"),
        *("--", sys.executable, script, kind),
        cwd=tmp_path,
    )
    folder = tmp_path / "store/it/rule-output/CreateXgboostReport"
    page = (folder / "xgboost_report.html").read_text()
    for section in SECTIONS[kind]:
        assert f"<h2>{section}</h2>" in page, section
    assert page.count("<h2>") == len(SECTIONS[kind])
    told: dict[str, Any] = json.loads((folder / "xgboost_report.json").read_text())
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert told["job_type"] == kind
    for name, value in truth["figures"].items():
        assert told[name] == value if not isinstance(value, float) else told[name] == pytest.approx(value)
    assert told["hyperparameters"]["objective"] or told["hyperparameters"]["name"]
    code = [cell["source"] for cell in json.loads((folder / "xgboost_report.ipynb").read_text())["cells"]]
    assert any("CreateXgboostReport" in source for source in code)
