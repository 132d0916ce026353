"""Rules that compare what ranks exchange and receive speak where they should, and not at healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import Jobs
from tests.zoo.conftest import HERE
from tests.zoo.test_ranks import LAUNCH

RULES = ("GradientsNotExchanged", "RepeatedBatches", "ReplicasDiffer")


def _issues(store: Path, kind: str) -> dict[str, list[dict[str, Any]]]:
    options = ["--no-rules", "--interval", "100ms", *(word for rule in RULES for word in ("--rule", rule))]
    done = Jobs(store).run(*LAUNCH, str(HERE / "two_ranks_silent.py"), kind, options=tuple(options))
    assert done.code == 0, done.stderr
    rules = {rule["name"]: rule for rule in done.describe()["rules"]}
    for name in RULES:
        assert rules[name]["coverage"]["evaluated"], rules[name]["status_details"]
    return {name: [one for one in rules[name]["issues"] if one["severity"] != "info"] for name in RULES}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rule", "step", "text"),
    [
        ("unwrapped", "GradientsNotExchanged", 1, "calls the model inside DDP"),
        ("alone", "GradientsNotExchanged", 2, "all compute the same"),
        ("undistributed", "RepeatedBatches", 8, "ranks receive the same batches"),
    ],
)
def test_ranks_that_do_not_share_the_work_are_found(
    tmp_path: Path, kind: str, rule: str, step: int, text: str
) -> None:
    (found,) = _issues(tmp_path, kind)[rule]
    assert text in found["summary"]
    assert found["step_end"] <= step


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["good", "local"])
def test_ranks_that_share_the_work_are_left_alone(tmp_path: Path, kind: str) -> None:
    assert not any(_issues(tmp_path, kind).values())
