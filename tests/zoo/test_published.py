"""With default options, eight published silent errors are found within ten steps, and their twins are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import Jobs
from tests.zoo.published.forms import FORMS, TWINS, Form, command, measured

WITHIN = 10


def _warnings(told: dict[str, Any]) -> list[dict[str, Any]]:
    rules = told["rules"]
    return [issue for rule in rules for issue in rule["issues"] if issue["severity"] != "info"]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_error_is_found_soon(tmp_path: Path, form: Form) -> None:
    done = Jobs(tmp_path).run(*command(form.name))
    assert done.code == 0, done.stderr
    found = [issue for issue in _warnings(done.describe()) if issue["rule"] == form.rule]
    assert found
    cause = measured(done.stdout)["cause"]
    assert found[0]["step_end"] - cause <= WITHIN


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_the_twin_has_no_warning_about_learning(tmp_path: Path, name: str) -> None:
    done = Jobs(tmp_path).run(*command(name))
    assert done.code == 0, done.stderr
    told = done.describe()
    rules = {form.rule for form in FORMS}
    assert not [issue for issue in _warnings(told) if issue["rule"] in rules]
    judged = [rule for rule in told["rules"] if rule["name"] in rules and rule["coverage"]["evaluated"]]
    assert len(judged) >= 4
