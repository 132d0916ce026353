"""XGBoost on a cluster of Dask: each worker has its rank, and its rounds are its steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frameworks.trained import trained

pytestmark = [pytest.mark.framework("dask"), pytest.mark.slow]


@pytest.mark.capability(
    "XGBoost on Dask",
    "steps",
    "numbers",
    "identical",
    "ranks",
    "callbacks",
    parts="compute, evaluation",
)
def test_workers_that_are_processes(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "dask_xgboost.py", "processes", tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    steps = it.job.steps.table
    numbers = it.job.scalars.table
    for rank, truth in enumerate(it.truth["ranks"]):
        mine = steps.where(steps["rank"] == rank)
        assert mine["step"].tolist() == list(range(truth["rounds"]))
        told = numbers.where((numbers["rank"] == rank) & (numbers["name"] == "train-logloss")).sorted("time")
        assert told["value"].tolist() == pytest.approx(it.truth["history"])
        worked = float((mine["compute"] + mine["eval"]).sum()) / 1e9
        assert 100 * worked / truth["loop"] == pytest.approx(100 * truth["worked"] / truth["loop"], abs=3)
    assert set(steps["rank"].tolist()) == {0, 1}
    events = it.job.trial.table("events").to_rows()
    assert {row["rank"] for row in events if row["kind"] == "framework"} == {0, 1}
    assert it.told["steps"]["count"] == 20
    assert it.named("callbacks") > 5
    assert it.told["job"]["failure"] is None


def test_of_workers_that_are_threads_one_is_recorded_and_the_card_says_so(
    framework_python: Path, tmp_path: Path
) -> None:
    it = trained(framework_python, "dask_xgboost.py", "threads", tmp_path)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert set(it.job.steps.table["rank"].tolist()) <= {0, 1}
    assert any("other training of another thread" in text for text in it.told["verdict"]["missing"])
    assert "other training of another thread" in " ".join(it.card.split())
