"""The bill: hours and money to the digit, the idle part, what findings cost a day, and what is unknown."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import jsonschema
import pytest
from tests.cli.conftest import told

import holter.views
from holter.analysis.jobs.bill import LOST, bill
from holter.analysis.jobs.cost import saving
from holter.cli import main
from holter.rules import catalogue
from holter.store.trial import Trial
from holter.views.comparison.document import compare
from holter.views.document.bill import bill_lines
from holter.views.document.description import describe

PUBLISHED = json.loads(Path(holter.views.__file__).with_name("description.schema.json").read_text())
NOTHING = {"busy_pct": None, "loop_h": None, "breakdown": None, "rules": ()}


def found(name, **evidence):
    return {"name": name, "issues": [{"evidence": evidence}]}


def test_the_worked_case_to_the_digit():
    # Of a job of 5.9 h an epoch, 30 of them, at 32.77: 177 h; its GPUs were busy for 40 %.
    made = bill(price=32.77, machines=1, hours=177, busy_pct=40, loop_h=170, breakdown=None, rules=())
    assert made["cost"] == pytest.approx(5800.29)
    assert made["idle"] == {"of": "accelerators", "pct": 60.0, "cost": pytest.approx(3480.174)}
    assert round(saving(5.9, 2.6, epochs=30, price=32.77).money_saved, 2) == 3244.23


def test_without_accelerators_steps_that_wait_are_the_idle_part():
    parts = {"data_loading": 30.0, "communication": 10.0, "h2d": 2.0, "forward": 58.0}
    made = bill(price=2, machines=3, hours=10, busy_pct=None, loop_h=8, breakdown=parts, rules=())
    assert made["cost"] == 60
    assert made["idle"] == {"of": "steps", "pct": pytest.approx(33.6), "cost": pytest.approx(20.16)}


def test_findings_cost_a_day_each_the_dearest_first():
    rules = [
        found("GCPause", cost_pct=5.0),
        found("DataloaderBottleneck", share_pct=60.0, steps=100),
        found("LossSpike", share_pct=50.0),
        {"name": "EvalOverhead", "issues": []},
        found("StragglerRank", cost_pct="much"),
    ]
    made = bill(price=10, machines=2, hours=1, **{**NOTHING, "rules": rules})
    assert [(one["rule"], one["per_day"]) for one in made["findings"]] == [
        ("DataloaderBottleneck", 24 * 10 * 2 * 0.6),
        ("GCPause", pytest.approx(24 * 10 * 2 * 0.05)),
    ]


def test_every_rule_of_the_list_tells_what_the_list_says():
    for rule, key in LOST.items():
        assert f'"{key}"' in inspect.getsource(inspect.getmodule(catalogue()[rule])), rule


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="price"):
        bill(price=wrong, machines=1, hours=1, **NOTHING)


def test_what_is_not_known_is_said():
    made = bill(price=2, machines=1, hours=None, **NOTHING)
    assert made["cost"] is None
    assert made["idle"] is None
    assert "unknown" in next(bill_lines(made))


def test_a_job_with_and_without_a_price(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder, story = told("before", ranks=2, cores=2, steps=60, samples=200)
    trial = Trial(folder)
    assert describe(trial)["bill"] is None
    made = describe(trial, price=32.77)
    jsonschema.validate(made, PUBLISHED)
    hours = made["job"]["duration_s"] / 3600
    assert made["bill"]["cost"] == pytest.approx(hours * 32.77)
    busy = story.samples["value"][story.samples["metric"] == "gpu.util"].mean()
    assert made["bill"]["idle"]["pct"] == pytest.approx(100 - busy)

    folder.update(price=32.77)
    assert describe(trial)["bill"] == made["bill"], "what `holter run --price` said counts"
    assert describe(trial, price=1)["bill"]["price"] == 1
    folder.update(price="a lot")
    assert describe(trial)["bill"] is None

    assert main(["describe", "before", "--price", "32.77"]) == 0
    assert "on 1 machine at 32.77 an hour" in " ".join(capsys.readouterr().out.split())
    assert main(["report", "before", "--price", "32.77", "-o", "-", "--format", "html"]) == 0
    assert "Cost of the job" in capsys.readouterr().out
    assert main(["describe", "before", "--price", "much"]) == 64
    assert "--price much is not a price" in capsys.readouterr().err

    folder.update(price=None)
    sides = compare([trial, trial], price=32.77, nodes=2)
    assert sides["jobs"][0]["bill"]["cost"] == pytest.approx(sides["jobs"][0]["cost"])
    assert main(["compare", "before", "before", "--price", "32.77"]) == 0
    assert "of it idle" in capsys.readouterr().out
