"""Users' rules from a file or a function: errors name file and line, and tables test the rules."""

from __future__ import annotations

import math
import re

import pytest
from tests.rules.rows import scalars, tensors

from holter.evaluation import choose, documents
from holter.rules import BadRule, Issue, Step, check_rule, find, rule
from holter.rules.own.files import load

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
    (issue,) = check_rule(load(kept["rule"])(threshold=5), {"scalars": scalars(loss=[1.0, 6.0, 7.0])})
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
    assert run.rule.values() == {"limit": 4}
    made = load(type(run.rule).named())(**run.rule.values())
    assert len(check_rule(made, {"scalars": scalars(loss=[4.0, 5.0])})) == 1
    with pytest.raises(
        BadRule, match=r"other\.py:2: BadRule: @rule: parameter 'limit' of above needs a default"
    ):
        choose([own(text.replace(": int = 3", ""), "other.py")])
    with pytest.raises(BadRule, match="@rule: reads='kernels'"):
        rule(reads=("kernels",))


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
