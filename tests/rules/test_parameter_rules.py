"""MissingGradient and OptimizerNotStepping: what saved gradients and changes of parameters tell."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training import judged, run, same_in_pieces, scalars, spans, tensor

from holter.rules.training.missing_gradient import MissingGradient
from holter.rules.training.optimizer_not_stepping import OptimizerNotStepping
from holter.schema.table import Table


def gradients(pattern, *, every=1, ranks=1, prefix=""):
    """Parameter → one letter a saved step: g got one, 0 all zero, n None, f frozen, s skipped."""
    kinds = {
        "g": {"zeros": 3},
        "0": {"zeros": 1000},
        "n": {"state": "unused", "count": 0},
        "f": {"state": "frozen", "count": 0},
        "s": {"state": "skipped", "zeros": 1000},
    }
    rows = [
        tensor(f"gradient/{prefix}{name}", i * every, rank=rank, **kinds[letter])
        for rank in range(ranks)
        for name, letters in pattern.items()
        for i, letter in enumerate(letters)
    ]
    return Table.of("tensors", rows)


def test_parameters_without_a_gradient_are_listed():
    rows = gradients(
        {"fc1.weight": "g" * 40, "head.weight": "n" * 40, "head.bias": "g" * 10 + "0" * 30}, every=100
    )
    (issue,) = same_in_pieces(MissingGradient(), tensors=rows)
    assert issue.severity == "warning"
    assert issue.evidence["parameters"] == ["head.bias", "head.weight"]
    assert (issue.step_start, issue.step_end) == (0, 2900)


@pytest.mark.parametrize(
    "pattern",
    [
        {"a": "g" * 60},
        {"a": "f" * 60, "b": "g" * 60},
        {"a": ("0" * 15 + "g") * 4},
        {"a": "s" * 60},
        {"moe.experts.3.w1.weight": "0" * 60, "b": "g" * 60},
    ],
    ids=["all get one", "frozen", "now and then", "skipped by the scaler", "an expert"],
)
def test_what_is_healthy_without_gradients(pattern):
    assert judged(MissingGradient(), tensors=gradients(pattern)) == []


def test_branches_that_are_dropped_by_chance_are_healthy():
    rng = np.random.default_rng(0)
    pattern = {f"block{i}.weight": "".join(rng.choice(["g", "n"], p=[0.8, 0.2], size=500)) for i in range(20)}
    assert judged(MissingGradient(), tensors=gradients(pattern)) == []


def test_a_gradient_on_any_rank_is_one():
    rows = Table.concat([gradients({"a": "n" * 40}), gradients({"a": "g" * 40}, ranks=2)])
    assert same_in_pieces(MissingGradient(), tensors=rows) == []


def test_the_base_under_adapters_is_info():
    pattern = {
        "model.q.weight": "n" * 30,
        "model.q.lora_A.weight": "g" * 30,
        "model.q.lora_B.weight": "g" * 30,
    }
    (issue,) = judged(MissingGradient(), tensors=gradients(pattern))
    assert (issue.code, issue.severity) == ("base", "info")


def test_without_gradients_it_says_what_to_record():
    fared = run(MissingGradient(), tensors=Table.of("tensors", [tensor("a", 0)]))
    assert (fared.covered, fared.reason) == (0, "no_input")
    assert "--save gradients@100" in fared.lack


def changes(pattern, *, every=1, gradient=True, first=0):
    """Parameter → its change at each saved step; None is not known."""
    rows = []
    for name, deltas in pattern.items():
        for i, delta in enumerate(deltas):
            step = first + i * every
            rows.append(tensor(name, step, delta_l2=np.nan if delta is None else delta))
            if gradient:
                rows.append(tensor(f"gradient/{name}", step, abs_mean=0.1))
    return Table.of("tensors", rows)


@pytest.mark.parametrize(
    ("steps", "every", "severity"), [(12, 1, "warning"), (101, 1, "critical"), (3, 100, "critical")]
)
def test_nothing_changes(steps, every, severity):
    rows = changes({"a": [None] + [0.0] * steps, "b": [None] + [0.0] * steps}, every=every)
    lr = scalars(lr=[1e-3] * (steps + 1), every=every)
    (issue,) = same_in_pieces(OptimizerNotStepping(), tensors=rows, scalars=lr)
    assert (issue.code, issue.severity, issue.step_start) == ("nothing_changes", severity, 0)


def test_fingerprints_tell_too():
    rows = changes({"a": [None] * 20})
    rows["fingerprint"][:] = 77
    (issue,) = judged(OptimizerNotStepping(), tensors=rows)
    assert issue.code == "nothing_changes"


def test_steps_that_were_skipped_or_have_no_rate_are_none():
    rows = changes({"a": [0.0] * 40})
    assert judged(OptimizerNotStepping(), tensors=rows, scalars=scalars(lr=[0.0] * 40)) == []
    assert judged(OptimizerNotStepping(), tensors=rows, spans=spans("skipped", range(40))) == []
    rows["state"][:] = "skipped"
    assert judged(OptimizerNotStepping(), tensors=rows) == []
    some = changes({"a": [0.0, 0.1] * 40, "b": [0.0, 0.1] * 40})
    assert judged(OptimizerNotStepping(), tensors=some) == []


def test_parameters_that_the_optimizer_does_not_know():
    pattern = {"body.weight": [0.1] * 30, "head.weight": [0.0] * 30, "late.weight": [0.1] + [0.0] * 29}
    (issue,) = same_in_pieces(OptimizerNotStepping(), tensors=changes(pattern))
    assert (issue.code, issue.severity) == ("params_not_in_optimizer", "warning")
    assert issue.evidence["parameters"] == ["head.weight"]
    (unsure,) = judged(OptimizerNotStepping(), tensors=changes(pattern, gradient=False))
    assert unsure.severity == "info"


def test_a_learning_rate_of_zero_is_told_when_it_lasts():
    cosine = (1e-3 * (1 + np.cos(np.linspace(0, np.pi, 300))) / 2).tolist()
    (issue,) = same_in_pieces(OptimizerNotStepping(), scalars=scalars(lr=cosine + [0.0] * 150))
    assert (issue.code, issue.severity, issue.count) == ("lr_zero", "warning", 1)
    assert judged(OptimizerNotStepping(), scalars=scalars(lr=[*cosine, 0.0])) == []
    groups = scalars(lr__0=[0.0] * 300, lr__1=[1e-3] * 300)
    assert judged(OptimizerNotStepping(), scalars=groups) == []


def test_a_learning_rate_that_jumps_beyond_all_before():
    (issue,) = judged(OptimizerNotStepping(), scalars=scalars(lr=[1e-3] * 200 + [1e-2] * 50))
    assert (issue.code, issue.step_start) == ("lr_jump", 200)
    warm = np.concatenate(
        [np.linspace(0, 1e-3, 500), np.linspace(1e-3, 1e-6, 500), np.linspace(1e-3, 1e-6, 500)]
    )
    assert judged(OptimizerNotStepping(), scalars=scalars(lr=warm)) == []


def test_without_changes_and_rates_it_says_what_to_record():
    fared = run(OptimizerNotStepping(), scalars=scalars(loss=[1.0]))
    assert (fared.covered, fared.reason) == (0, "no_input")
