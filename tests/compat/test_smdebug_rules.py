"""Rules written for smdebug run on holter's store: by `invoke_rule`, and beside a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tensors.writing import Recording

from holter.compat.smdebug import create_trial
from holter.compat.smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet
from holter.compat.smdebug.rules import Rule, invoke_rule
from holter.evaluation import choose, documents, evaluate


class TooFlat(Rule):
    """A gradient hardly changes anything."""

    def __init__(self, base_trial, threshold=0.5):
        super().__init__(base_trial)  # as in smdebug's own sample, without the actions
        self.threshold = float(threshold)
        self.seen = []

    def set_required_tensors(self, step):
        self.req_tensors.add("gradient/.*", steps=[step], should_match_regex=True)

    def invoke_at_step(self, step):
        self.seen.append(step)
        found = [t.reduction_value(step, "mean", abs=True) for t in self.req_tensors.get()]
        return any(value < self.threshold for value in found)


@pytest.fixture
def recording(tmp_path):
    made = Recording(tmp_path / "store")
    for step in (0, 2, 4, 6):
        made.save(step, {"gradient/fc": [1.0, -1.0] if step < 4 else [0.1, -0.1]})
    made.save(5, {"loss": [1.0]})
    return made


def test_invoke_rule_goes_on_to_the_end(recording, caplog):
    recording.end()
    made = TooFlat(create_trial(recording.folder.url))
    with pytest.raises(NoMoreData):
        invoke_rule(made)
    assert made.seen == [0, 2, 4, 6], "5 lacks what is required, the others were not saved"
    assert made.report["Violations"] == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"rule TooFlat met its condition at step {step}" for step in (4, 6)
    ]


def test_invoke_rule_raises_when_asked_and_stops_before_the_end_step(recording):
    recording.end()
    made = TooFlat(create_trial(recording.folder.url))
    with pytest.raises(RuleEvaluationConditionMet, match="step 4"):
        invoke_rule(made, raise_eval_cond=True)
    again = TooFlat(create_trial(recording.folder.url))
    invoke_rule(again, start_step=1, end_step=4)
    assert again.seen == [2]


FILE = '''
from holter.compat.smdebug.rules import Rule

class TooFlat(Rule):
    """A gradient hardly changes anything."""

    def __init__(self, base_trial, action_str, threshold=0.5, other_trials=None):
        super().__init__(base_trial, action_str, other_trials)
        self.threshold = float(threshold)

    def invoke_at_step(self, step):
        tensors = map(self.base_trial.tensor, self.base_trial.tensor_names(regex="gradient/.*"))
        return any(one.reduction_value(step, "mean", abs=True) < self.threshold for one in tensors)
'''


def test_a_file_beside_a_job(recording, tmp_path):
    path = tmp_path / "my_rule.py"
    path.write_text(FILE)
    rules = documents(choose([f"{path}:TooFlat:threshold=0.4"]))
    assert rules[0]["parameters"] == {"threshold": 0.4, "other_trials": "", "start_step": 0, "end_step": -1}
    recording.folder.update(rules=rules)
    recording.end()
    (rule,) = evaluate(recording.folder, rules).rules
    assert rule["error"] is None
    (issue,) = rule["issues"]
    assert (rule["name"], issue["count"], issue["step_start"], issue["step_end"]) == ("TooFlat", 2, 4, 6)
    assert issue["summary"] == "A gradient hardly changes anything (step 6)"


def test_live_it_judges_each_step_once(tmp_path):
    path = tmp_path / "my_live_rule.py"
    path.write_text(FILE)
    made = Recording(tmp_path / "store")
    rules = documents(choose([str(path)]))
    made.folder.update(rules=rules)
    steps = list(range(12))

    def wait(_seconds):
        if steps:
            step = steps.pop(0)
            made.save(step, {"gradient/fc": [0.1, -0.1] if step in (3, 4, 9) else [1.0, 1.0]})
        else:
            made.end()

    (rule,) = evaluate(made.folder, rules, live=True, wait=wait).rules
    assert rule["error"] is None
    assert [(issue["count"], issue["step_start"], issue["step_end"]) for issue in rule["issues"]] == [
        (3, 3, 9)
    ]


def test_the_one_of_the_tutorial(recording, tmp_path):
    page = (Path(__file__).parents[2] / "docs/tutorials/own-rule.md").read_text()
    path = tmp_path / "tutorial_rule.py"
    path.write_text(page.partition("```python\n")[2].partition("```")[0])
    recording.end()
    (rule,) = evaluate(recording.folder, [f"{path}:TooFlat:threshold=0.4"], record=False).rules
    assert rule["error"] is None
    assert [(issue["count"], issue["step_start"]) for issue in rule["issues"]] == [(2, 4)]
