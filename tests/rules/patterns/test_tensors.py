"""The base of rules about tensors: which rows it reads, and that windows may be cut anywhere."""

from __future__ import annotations

import dataclasses
import json
from functools import cache

import numpy as np
import pytest
from tests.rules.gradients import judged
from tests.rules.tables import ENDED, SECOND, START, look
from tests.rules.tensor_rows import rows, summary, tensor, weight

from holter.rules import BadRule, Issue, Job, Rule, Window, catalogue
from holter.rules.patterns.losses import LossRule
from holter.rules.patterns.tensors import TensorRule
from holter.rules.reliability.stalled_training_rule import StalledTrainingRule
from holter.rules.tensors.all_zero import AllZero
from holter.rules.tensors.exploding_tensor import ExplodingTensor
from holter.schema.table import Table


def test_all_ranks_or_one():
    table = rows(weight("w", {1: [np.nan]}, rank=0), weight("w", {1: [np.nan]}, rank=3))
    assert [i.rank for i in judged(ExplodingTensor(), table)] == [0, 3]
    assert [i.rank for i in judged(ExplodingTensor(ranks="one"), table)] == [0]
    assert [i.rank for i in judged(ExplodingTensor(ranks="2, 3"), table)] == [3]


def test_steps_modes_and_every():
    table = rows(weight("w", {s: [np.nan] for s in range(8)}), weight("v", {20: [np.nan]}, mode="eval"))
    rule = ExplodingTensor(start_step=2, end_step=6)
    assert [i.step_start for i in judged(rule, table)] == [2, 3, 4, 5]
    assert [i.step_start for i in judged(ExplodingTensor(mode="EVAL"), table)] == [20]
    assert [i.step_start for i in judged(ExplodingTensor(every=3), table)] == [0, 3, 6]


def test_findings_beyond_the_most_are_counted():
    table = rows(*(weight("w", {1: [np.nan]}, rank=rank) for rank in range(5)))
    issues, window = look(ExplodingTensor(max_findings=2), job=ENDED, tensors=table)
    assert [i.rank for i in issues] == [0, 1]
    assert window.details["findings_left_out"] == 3


def test_tensors_without_a_finite_element_are_counted():
    table = rows(weight("w", {1: [np.nan]}), weight("v", {1: [1.0, 2.0]}))
    _, window = look(AllZero(), job=ENDED, tensors=table)
    assert window.details["skipped_nonfinite"] == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tensor_regex": "("}, "is not a regular expression"),
        ({"mode": "trian"}, "did you mean 'train'"),
        ({"ranks": "some"}, "all, one, or whole numbers"),
        ({"consecutive": 0}, "successive"),
    ],
)
def test_bad_parameters_are_refused(given, says):
    with pytest.raises(BadRule, match="AllZero") as caught:
        AllZero.of(given)
    assert says in str(caught.value)


def test_the_step_that_is_not_whole_waits():
    rule, state = ExplodingTensor(), {}
    first, later = rows(weight("a", {1: [np.nan]})), rows(weight("b", {1: [np.nan]}), weight("a", {2: [1.0]}))
    assert look(rule, tensors=first, state=state)[0] == []
    (issue,) = look(rule, tensors=later, state=state)[0]
    assert issue.evidence["tensors"] == ["a", "b"]


def test_summary_is_what_the_schema_says():
    row = summary([1.0, -1.0, np.nan, 0.0], before=[1.0, 1.0, 0.0, 0.0])
    assert (row["count"], row["nan"], row["zeros"], row["mean"]) == (4, 1, 1, 0.0)
    assert Table.of("tensors", [row]).rows == 1


RULES = [r for r in catalogue().values() if issubclass(r, TensorRule) or r is StalledTrainingRule]
EAGER = {
    "num_steps": 2, "smooth": 2, "steps": 9, "samples": 5, "min_samples": 3, "threshold_samples": 3,
    "min_diag": 0.9, "max_off_diag": 0.1, "other_trials": "other", "min_val_points": 1, "patience": 1,
    "patience_train": 2, "patience_validation": 2, "threshold_inactivity": 60, "threshold_layer": 10,
    "nfeatures": 1, "batches": 2,
    "depth": 1, "min_class_samples": 1, "argmax": True, "threshold_imbalance": 1, "threshold_tanh_max": 1,
    "max_threshold": 1, "ratio_threshold": 0.01, "must_rise": False, "successive": 1,
}  # fmt: skip
TENSORS = {
    "fc.weight": ("weight", (3, 2)), "gradient/fc.weight": ("grad", (3, 2)), "loss": ("loss", ()),
    "tanh_input_0": ("act_in:tanh", (4, 3)), "relu0_relu_output_0": ("act_out:relu", (4, 3)),
    "labels": ("labels", (6,)), "predictions": ("logits", (6, 3)),
    "embedding0_input_0": ("token_ids", (2, 3)),
    "hybridsequential0_input_0": ("model_input:0", (2, 1, 2, 2)), "trees/Node": ("", (7,)),
    "feature_importance/gain/a": ("", ()), "feature_importance/gain/b": ("", ()),
    "feature_importance/weight/a": ("", ()),
}  # fmt: skip


@cache
def story(seed: int) -> dict[str, Table]:
    """Two ranks whose steps lie close together, with values that are now and then sick."""
    random = np.random.default_rng(seed)
    tensors, values, scalars = [], [], []
    for rank in (0, 1):
        for step in range(8):
            mode = "eval" if step % 4 == 3 else "train"
            about = {"rank": rank, "step": step, "mode": mode, "node": "n0"}
            begin = START + step * SECOND + rank
            for name, value in (("loss", random.normal(1, 0.3)), ("lr", random.choice([0, 1e-3]))):
                time = begin + int(random.integers(0, SECOND))
                scalars.append(about | {"time": time, "name": name, "value": float(value)})
            for i, (name, (role, shape)) in enumerate(TENSORS.items()):
                place = about | {"time": begin + (i + 1) * SECOND // 20, "name": name}
                array = np.round(random.normal(0, 2, shape) * random.choice([0, 1e-9, 1, 3]))
                if role == "weight" and step % 4:
                    array = tensors[-len(TENSORS)]["values"]
                if random.random() < 0.1:
                    array = array * np.nan
                before = array + random.choice([0, 1e-3])
                tensors.append(place | {"role": role, "values": array} | summary(array, before))
                listed = [("shape", v) for v in enumerate(shape)] + [
                    ("value", v) for v in enumerate(array.ravel())
                ]
                values += [place | {"kind": k, "position": p, "value": float(v)} for k, (p, v) in listed]
    return {
        "tensors": Table.of("tensors", tensors),
        "tensor_values": Table.of("tensor_values", values),
        "scalars": Table.of("scalars", scalars),
    }


def seen(rule: Rule, tables: dict[str, Table], other: dict[str, Table], cuts: list[int]) -> list[str]:
    """Evaluate windows cut at moments; JSON carries the state, as in a restart."""
    found: list[Issue] = []
    state, last = {}, START - 1
    end = START + 10 * SECOND
    for cut in [*sorted(cuts), end]:
        job = Job(start=START, ended=cut == end)
        window = Window.of(
            rule.lookback, job=job, start=last, end=cut, state=state, baselines={"other": other}, **tables
        )
        found += rule.evaluate(window)
        state, last = json.loads(json.dumps(window.state)), cut
    return sorted(json.dumps(dataclasses.asdict(issue), sort_keys=True) for issue in found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("defaults", ["modern", "classic"])
def test_windows_may_be_cut_anywhere(rule: type[Rule], defaults: str) -> None:
    names = {p.name for p in rule.parameters()}
    if rule is StalledTrainingRule:
        made = rule.of({"threshold": 1.0}, defaults=defaults)
    else:
        made = rule.of({k: v for k, v in EAGER.items() if k in names}, defaults=defaults)
    told = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        tables, other = story(seed), story(99)
        whole = seen(made, tables, other, [])
        told += len(whole)
        for count in (1, 5, 40):
            cuts = (START + random.integers(0, 9 * SECOND, count)).tolist()
            assert seen(made, tables, other, cuts) == whole
    assert told or rule.formula == "never"


@pytest.mark.parametrize("rule", [r for r in RULES if "doubtful" in vars(r)], ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("defaults", ["modern", "classic"])
def test_steps_that_are_passed_over_hold_nothing(rule: type[Rule], defaults: str) -> None:
    looks_at_all = type(rule.__name__, (rule,), {"doubtful": TensorRule.doubtful})
    names = {p.name for p in rule.parameters()}
    given = {k: v for k, v in EAGER.items() if k in names} | {"ignore_first_step": False}
    quick, thorough = (
        made.of({k: v for k, v in given.items() if k in names}, defaults=defaults)
        for made in (rule, looks_at_all)
    )
    told = 0
    for seed in range(8):
        whole = seen(thorough, story(seed), story(99), [])
        assert seen(quick, story(seed), story(99), []) == whole
        told += len(whole)
    assert told


def test_the_state_stays_small_over_a_long_run():
    random = np.random.default_rng(5)
    for rule in RULES:
        made, state = rule.of(), {}
        sizes = []
        for begin in range(0, 3000, 500):
            steps = range(begin, begin + 500)
            scalars = [
                {"time": START + s * SECOND, "rank": 0, "step": s, "mode": "train", "name": n, "value": v}
                for s in steps
                for n, v in (("loss", float(random.normal(1, 0.1))), ("lr", 1e-3 / (s + 1)))
            ]
            by_step = {s: random.normal(size=(2, 3)) for s in steps[::50]}
            tables = {
                "tensors": rows(*(tensor(n, by_step, role=r) for n, (r, _) in TENSORS.items())),
                "scalars": Table.of("scalars", scalars),
            }
            look(made, state=state, job=Job(start=START), **tables)
            sizes.append(len(json.dumps(state)))
        assert sizes[-1] < 1.5 * sizes[1] + 2000, (rule.__name__, sizes)
        assert isinstance(made, TensorRule | LossRule | StalledTrainingRule)
