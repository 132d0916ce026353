"""Rules made from expressions: their findings, and the place of an error in an expression."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.rules.rows import START, readings, scalars, tensors

from holter.rules import BadRule, Job, Step, Window, check_rule, find, rule
from holter.schema.table import Table


@rule()
def loss_too_large(step: Step, limit: float = 3.0):
    """The loss is too large."""
    return step.scalars.get("loss", 0.0) > limit


def when(text):
    return find(f"when:{text}")()


@pytest.mark.parametrize(
    ("text", "values", "steps"),
    [
        ("loss > 3", [1, 4, 1, 5], [(1, 1), (3, 3)]),
        ("loss > 3 for 2 steps", [4, 1, 4, 5, 6, 1], [(2, 3), (2, 4)]),
        ("loss > 3 for 2s", [4, 1, 4, 5, 6, 1], [(2, 4)]),
        ("loss - 1 > 2 * 3 / 2 + 1", [5, 6], [(1, 1)]),
        ("-loss < -3", [3, 4], [(1, 1)]),
        ("not (loss < 3) and loss != 5", [1, 4, 5], [(1, 1)]),
        ("loss > 9 or loss == 1", [1, 4, 10], [(0, 0), (2, 2)]),
        ("nonfinite(loss)", [1, math.nan, math.inf], [(1, 1), (1, 2)]),
        ("abs(loss) >= 3", [-3, 2], [(0, 0)]),
        ('scalar("loss") <= 1e0', [1, 2], [(0, 0)]),
        ("loss / 0 > 1", [1, 2], []),
        ("other > 0", [1, 2], []),
    ],
)
def test_expressions_of_numbers(text, values, steps):
    made, found = when(text), []
    rows = Table.of("scalars", scalars(loss=values))
    window = Window.of(scalars=rows, job=Job(start=START, ended=True))
    found = [(issue.step_start, issue.step_end) for issue in made.evaluate(window)]
    assert found == steps


def test_expressions_of_tensors_name_the_tensor():
    rows = {
        "tensors": [
            *tensors("gradient/decoder.0", [1.0, 20.0]),
            *tensors("gradient/encoder.0", [99.0, 99.0]),
            *tensors("decoder.0", [99.0, 99.0]),
        ]
    }
    (issue,) = check_rule(when('rms(grad("decoder.*")) > 10'), rows)
    assert issue.tensor == "gradient/decoder.0"
    assert issue.evidence == {'rms("gradient/decoder.*")': 20.0}
    (issue,) = check_rule(when('l2(tensor("decoder.*")) > 197'), rows)
    assert (issue.tensor, issue.count) == ("decoder.0", 2)


def test_expressions_of_readings_are_for_each_device():
    rows = {
        "samples": [
            *readings("gpu.util", [90.0] * 60 + [10.0] * 120),
            *readings("gpu.util", [90.0] * 180, device="gpu1"),
        ]
    }
    job = Job(start=START)
    (issue,) = check_rule(when("avg_over(gpu.util, 1min) < 30"), rows, job=job)
    assert issue.device == "gpu0"
    # An average over a minute is below 30 from 45 s after the fall on; pieces are of ten seconds.
    assert issue.count == 8
    (issue,) = check_rule(when("max_over(gpu.util, 10s) < 30 for 1m"), rows, job=job)
    assert (issue.device, issue.count) == ("gpu0", 7)
    assert check_rule(when("min_over(gpu.util, 10s) > 95"), rows) == []
    (issue,) = check_rule(
        find("when:min_over(gpu.util, 10s) < 30").of({"severity": "critical", "advice": "x"}), rows
    )
    assert (issue.severity, issue.advice) == ("critical", "x")


RANDOM = np.random.default_rng(3)
MANY = {
    "scalars": [*scalars(loss=RANDOM.random(200)), *scalars(1, loss=RANDOM.random(200))],
    "tensors": tensors("gradient/a", RANDOM.random(200)),
    "samples": readings("gpu.util", RANDOM.random(600) * 100, every_s=0.5),
}


@pytest.mark.parametrize(
    "made",
    [
        when("loss > 0.8 for 2 steps"),
        when("loss > 0.7 for 1s"),
        when('std(grad("a")) > 0.9 and loss > 0.5'),
        when("avg_over(gpu.util, 20s) < 48 for 20s"),
        loss_too_large(limit=0.95),
    ],
    ids=str,
)
@pytest.mark.parametrize("pieces", [2, 7, 60])
def test_they_find_the_same_however_the_rows_come(made, pieces):
    whole = check_rule(made, MANY)
    assert whole
    assert check_rule(made, MANY, pieces=pieces) == whole


WRONG = [
    ("", "it ends where a number or a name should come"),
    ("loss", "a comparison is missing"),
    ("1 > 0", "no number of the training"),
    ("loss >", "it ends where"),
    ("loss > 3 for", "a number of steps or a time"),
    ("loss > 3 for 0 steps", "`for` takes"),
    ("loss > 3 for 2.5 steps", "`for` takes"),
    ("loss > 3 loss", "'loss' is too much"),
    ("loss > 3; import os", "';' at character 9"),
    ("loss.__class__ > 3 > 2", "is too much"),
    ("open('/etc/passwd') > 3", "no function 'open'"),
    ("avg_over(gpu.utl, 5m) < 3", "did you mean gpu.util"),
    ("avg_over(gpu.util, 5) < 3", "no time from 10s to 1h"),
    ("avg_over(gpu.util, 2h) < 3", "no time from 10s to 1h"),
    ("gpu.util < 3", "write avg_over(gpu.util, 5m)"),
    ("avg_over(gpu.util, 5m) < 3 and loss > 2", "cannot be mixed"),
    ("avg_over(gpu.util, 5m) < 3 for 3 steps", "have no steps"),
    ('rms("x") > 3', "is of tensors"),
    ('rms(tensor("(")) > 3', "is not a regular expression"),
    ("rms(tensor(x)) > 3", "must stand in quotes"),
    ("(loss > 3", "')' is missing"),
    ("(" * 100 + "loss > 3" + ")" * 100, "nested too deep"),
    ("-" * 200 + "loss > 3", "nested too deep"),
]


@pytest.mark.parametrize(("text", "says"), WRONG, ids=[says for _, says in WRONG])
def test_an_expression_that_is_wrong_is_refused_where_it_is(text, says):
    with pytest.raises(BadRule) as refused:
        when(text)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true') > 1",
        "open('x') > 1",
        "loss.__class__('x') > 1",
        "loss ** 99 > 1",
        "9 ** 9 ** 9 > loss",
        "lambda: loss > 1",
        "[loss for loss in loss] > 1",
        "loss > 1; loss > 2",
        "loss > 1 for 1e999 steps",
        "not " * 5000 + "loss > 1",
        "(" * 5000 + "loss > 1",
        "+".join(["loss"] * 5000) + " > 1",
        "loss > 1" + " and loss > 1" * 5000,
    ],
    ids=lambda text: text[:30],
)
def test_an_expression_reaches_nothing_and_costs_little(text):
    with pytest.raises(BadRule):
        find(f"when:{text}")
