"""Tests of the rule OptimizerNotStepping."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, scalars, spans, tensor

from holter.rules.training.optimizer_not_stepping import OptimizerNotStepping
from holter.schema.table import Table


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
