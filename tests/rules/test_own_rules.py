"""Rules of one's own: from a file, a function, an expression; refused with file and line, tried on tables."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from holter.evaluation import choose, documents
from holter.rules import BadRule, Issue, Job, Step, Window, check_rule, find, rule
from holter.schema.table import Table

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND

FILE = '''
from dataclasses import dataclass
from holter.rules import Rule, parameter

@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge(Rule):
    """The loss is too large."""

    reads = ("scalars",)
    threshold: float = parameter(3.0, above=0)
    """What it must not exceed."""

    def evaluate(self, window):
        for row in window.new("scalars").to_rows():
            step = row["step"]
            if row["value"] > self.threshold:
                yield self.issue(f"{row['name']} is {row['value']}", step_start=step, step_end=step)
'''


def scalars(rank=0, **series):
    return [
        {"time": START + (i + 1) * SECOND, "rank": rank, "step": i, "name": name, "value": value, "node": "n"}
        for name, values in series.items()
        for i, value in enumerate(values)
        if value is not None
    ]


def tensors(name, stds, **more):
    return [
        {
            "time": START + (i + 1) * SECOND,
            "rank": 0,
            "step": i,
            "name": name,
            "count": 4,
            "mean": 0.0,
            "std": std,
            "min": -std,
            "max": std,
            **more,
        }
        for i, std in enumerate(stds)
    ]


def readings(metric, values, device="gpu0", every_s=1.0):
    return [
        {
            "time": START + round((i + 1) * every_s * SECOND),
            "metric": metric,
            "device": device,
            "value": value,
            "node": "n",
        }
        for i, value in enumerate(values)
    ]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a file into the folder where a command is typed."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="my_rule.py"):
        (tmp_path / name).write_text(text)
        return f"./{name}"

    return write


def test_a_file_with_a_parameter_through_the_manifest_and_back(own, tmp_path):
    (run,) = choose([f"{own(FILE)}:TooLarge:threshold=5"])
    assert run.name == "TooLarge"
    (kept,) = documents([run])
    assert kept["rule"] == f"{tmp_path}/my_rule.py:TooLarge"
    assert kept["parameters"] == {"threshold": 5.0}
    (again,) = choose([kept])
    assert again.rule == run.rule
    (issue,) = check_rule(run.rule, {"scalars": scalars(loss=[1.0, 6.0, 7.0])})
    assert (issue.count, issue.step_start, issue.step_end) == (2, 1, 2)


def test_one_rule_in_a_file_needs_no_name(own):
    path = own(FILE)
    assert choose([path])[0].name == "TooLarge"
    assert choose([f"{path}:threshold=4"])[0].rule.threshold == 4
    assert find("too_large").__name__ == "TooLarge", "once read it is found by its name"


REFUSED = [
    ("x = 1", "holds no rule"),
    ("import holter.rules\nraise ValueError('no')\n", r"my_rule\.py:2: ValueError: no"),
    ("def broken(:\n    pass\n", r"my_rule\.py:1: SyntaxError"),
    ("\n\nimport no_such_module_5\n", r"my_rule\.py:3: ModuleNotFoundError"),
    ("import sys\nsys.exit(0)\n", r"my_rule\.py:2: SystemExit"),
    (FILE + FILE.replace("TooLarge", "TooSmall"), r"holds 2 rules; name one: .*TooLarge, .*TooSmall"),
    (FILE.replace("TooLarge", "StepOutlier"), "there is a rule StepOutlier already; rename it"),
    (
        FILE.replace('("scalars",)', '("scalrs",)'),
        r"my_rule\.py:\d: TooLarge reads 'scalrs'; did you mean 'scalars'",
    ),
    (FILE.replace('("scalars",)', '("samples/gpu.utl",)'), "did you mean 'samples/gpu.util'"),
    (FILE.replace('reads = ("scalars",)', "pass"), r"my_rule\.py:\d: TooLarge reads nothing"),
    (re.sub("@dataclass.*", "", FILE), r"my_rule\.py:\d: TooLarge has parameters but is no dataclass"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_a_file_that_is_no_rule_is_refused(text, says, own):
    with pytest.raises(BadRule, match=says):
        choose([own(text)])


def test_what_does_not_fit_a_file_s_rule_is_refused_with_its_line(own):
    path = own(FILE)
    with pytest.raises(
        BadRule, match=r"my_rule\.py:5\) has no parameter 'treshold'; did you mean 'threshold'"
    ):
        choose([f"{path}:TooLarge:treshold=5"])
    with pytest.raises(BadRule, match=r"my_rule\.py:5\): threshold='-1' is not valid"):
        choose([f"{path}:TooLarge:threshold=-1"])
    with pytest.raises(BadRule, match=r"no rule 'TooLarg'; did you mean TooLarge"):
        choose([f"{path}:TooLarg"])
    with pytest.raises(BadRule, match="there is no such file"):
        choose(["./gone.py:TooLarge"])


@rule(severity="critical", advice="Lower the learning rate.")
def loss_too_large(step: Step, limit: float = 3.0):
    """The loss is too large."""
    return step.scalars.get("loss", 0.0) > limit


@rule(reads=("tensors", "scalars"))
def dead_layer(step, least: float = 1e-6):
    """A layer gives nothing."""
    dead = [name for name, told in step.tensors.items() if told["rms"] < least]
    return f"{dead[0]} gives nothing at lr {step.scalars['lr']:g}" if dead else None


def test_a_function_of_a_step_is_a_rule():
    assert (loss_too_large.__name__, loss_too_large.severity) == ("loss_too_large", "critical")
    assert [p.name for p in loss_too_large.parameters()] == ["limit"]
    made = loss_too_large.of({"limit": "5"})
    found = check_rule(made, {"scalars": [*scalars(loss=[1.0, 6.0, math.inf]), *scalars(1, loss=[9.0])]})
    assert [(issue.rank, issue.count, issue.step_start, issue.step_end) for issue in found] == [
        (0, 2, 1, 2),
        (1, 1, 0, 0),
    ]
    assert found[0].summary.startswith("The loss is too large (step")
    assert found[0].advice == "Lower the learning rate."
    with pytest.raises(BadRule, match="has no parameter 'limt'"):
        loss_too_large.of({"limt": 5})


def test_a_function_may_say_what_it_found_and_reads_several_tables():
    rows = {"tensors": tensors("relu1_output_0", [1.0, 0.0]), "scalars": scalars(lr=[0.1, 0.2])}
    (issue,) = check_rule(dead_layer(), rows)
    assert issue.summary.startswith("relu1_output_0 gives nothing at lr 0.2")


def test_a_function_rule_from_a_file(own):
    text = (
        "from holter.rules import rule\n@rule()\ndef above(step, limit: int = 3):\n"
        "    return step.scalars['loss'] > limit\n"
    )
    (run,) = choose([f"{own(text)}:above:limit=4"])
    assert len(check_rule(run.rule, {"scalars": scalars(loss=[4.0, 5.0])})) == 1
    with pytest.raises(
        BadRule, match=r"other\.py:2: BadRule: @rule: parameter 'limit' of above needs a default"
    ):
        choose([own(text.replace(": int = 3", ""), "other.py")])
    with pytest.raises(BadRule, match="@rule: reads='kernels'"):
        rule(reads=("kernels",))


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
    ('rms(tensor("(")) > 3', "is no pattern"),
    ("rms(tensor(x)) > 3", "must stand in quotes"),
    ("(loss > 3", "')' is missing"),
    ("(" * 100 + "loss > 3" + ")" * 100, "nested too deep"),
    ("-" * 5000 + "loss > 3", "nested too deep"),
]


@pytest.mark.parametrize(("text", "says"), WRONG, ids=[says for _, says in WRONG])
def test_an_expression_that_is_wrong_is_refused_where_it_is(text, says):
    with pytest.raises(BadRule) as refused:
        when(text)
    assert says in str(refused.value)


def test_check_rule_wants_rows_and_a_state_of_json():
    with pytest.raises(ValueError, match="needs rows"):
        check_rule(loss_too_large(), {"scalars": []})
    with pytest.raises(KeyError):
        check_rule(loss_too_large(), {"scalers": scalars(loss=[1.0])})

    @rule()
    def own_issue(step):
        return Issue(rule="x", summary=f"at {step.number}", severity="info", code=str(step.number))

    assert [i.summary for i in check_rule(own_issue(), {"scalars": scalars(loss=[1.0, 2.0])})] == [
        "at 0",
        "at 1",
    ]
