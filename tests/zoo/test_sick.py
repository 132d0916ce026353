"""Every rule that a training on a CPU can make speak does so, and keeps silent at the healthy twin.

To add a training: write a function in `sick*.py` (or, where all is well, in `healthy.py`) that trains for a
second or two, on the data and models of `material.py`, without a word about recording; then a `Case` in
`cases.py` that names the rule, the function, and a twin that differs in the trouble only, if no healthy
training fits. What is saved of all trainings stands in `train.py`; a training that needs more calls
`holter.watch`. Give the rule parameters only where its defaults wait for more lost time than a test has.
A new rule that needs a GPU, hours or several machines goes into `NOT_HERE`, with that reason.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from tests.zoo.cases import CASES, NOT_HERE, Case
from tests.zoo.conftest import Zoo, wanted

from holter.rules import SEVERITIES, catalogue


def test_every_rule_is_here_or_there_is_a_reason() -> None:
    here = {case.name for case in CASES}
    assert here | set(NOT_HERE) == set(catalogue())
    assert not here & set(NOT_HERE)


@pytest.fixture(scope="module")
def judged(zoo: Zoo, request: pytest.FixtureRequest) -> Any:
    """Train at once what the tests that run want; each is judged once, by all rules that ask for it."""
    cases = wanted(request, "case")
    others = [name for case in cases for name in re.findall(r"other_trials=(\w+)", case.rule)]
    zoo.train([*others, *(name for case in cases for name in (case.sick, case.well))])

    @cache
    def ask(name: str) -> dict[str, dict[str, Any]]:
        rules = sorted({case.rule for case in CASES if name in (case.sick, case.well)})
        return {rule["rule"]: rule for rule in zoo.ask(name, rules)}

    return ask


def _severe(case: Case, found: dict[str, Any]) -> list[str]:
    usual = "info" if catalogue()[case.name].severity == "info" else "warning"
    least = SEVERITIES.index(case.level or usual)
    return [issue["summary"] for issue in found["issues"] if SEVERITIES.index(issue["severity"]) >= least]


@pytest.mark.capability("PyTorch", "learning")
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.sick}")
def test_the_sick_one_is_found_and_its_twin_is_not(judged: Any, case: Case) -> None:
    sick, well = (judged(name)[case.name] for name in (case.sick, case.well))
    told = _severe(case, sick)
    assert told, sick["status_details"]
    assert any(case.tells in summary for summary in told), told
    assert not _severe(case, well), well["issues"]
    assert well["coverage"]["evaluated"], well["status_details"]
