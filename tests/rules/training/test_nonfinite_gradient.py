"""NonFiniteGradient: what is told of the first bad step, and what a gradient scaler excuses."""

from __future__ import annotations

import json
import math

from tests.rules.tables import SECOND, START
from tests.rules.training_rows import judged, run, same_in_pieces, scalars, spans, tensor

from holter.rules.training.nonfinite_gradient import NonFiniteGradient
from holter.schema.table import Table


def nonfinite(step, **detail):
    row = {"time": START + step * SECOND, "rank": 0, "kind": "nonfinite", "name": "layer2.attention"}
    return Table.of("events", [{**row, "detail": json.dumps({"step": step, **detail})}])


def numbers(bad, n=60, *, rank=0):
    norm = [1.5 if step < bad else math.nan for step in range(n)]
    flags = [None if step < bad else 12 for step in range(n)]
    loss = [0.7 if step <= bad else math.nan for step in range(n)]
    return scalars(rank=rank, loss=loss, grad_norm=norm, nonfinite_gradients=flags)


def test_the_first_bad_step_is_told_with_where_it_began():
    events = nonfinite(40, direction="forward", module="layer2.attention")
    (issue,) = same_in_pieces(NonFiniteGradient(), scalars=numbers(40), events=events)
    assert (issue.severity, issue.step_start, issue.step_end, issue.count) == ("critical", 40, 59, 20)
    assert "layer2.attention, in the forward pass" in issue.summary
    assert issue.evidence["last_finite"] == {"step": 39, "grad_norm": 1.5}
    assert issue.evidence["weights_finite_before"] is True


def test_one_rank_alone_points_to_its_data_or_device():
    rows = Table.concat([numbers(40, rank=0), scalars(rank=1, loss=[0.7] * 60, grad_norm=[1.5] * 60)])
    (issue,) = same_in_pieces(NonFiniteGradient(), scalars=rows)
    assert "on rank 0 alone" in issue.summary
    (both,) = judged(NonFiniteGradient(), scalars=Table.concat([numbers(40), numbers(40, rank=1)]))
    assert "alone" not in both.summary
    assert both.evidence["first_ranks"] == [0, 1]


def test_gradients_that_were_saved_name_the_parameter():
    rows = [tensor("gradient/fc1.weight", 100), tensor("gradient/fc1.weight", 200, nan=3)]
    rows += [tensor("fc1.weight", step) for step in (100, 200)]
    (issue,) = same_in_pieces(NonFiniteGradient(), tensors=Table.of("tensors", rows))
    assert issue.evidence["origin"]["where"] == "fc1.weight"
    assert issue.step_start == 200
    rows[2]["posinf"] = 1
    (issue,) = judged(NonFiniteGradient(), tensors=Table.of("tensors", rows))
    assert issue.evidence["weights_finite_before"] is False


def test_a_loss_alone_is_enough():
    (issue,) = judged(NonFiniteGradient(), scalars=scalars(loss=[0.5] * 30 + [math.inf]))
    assert (issue.severity, issue.step_start) == ("critical", 30)
    assert "the loss" in issue.summary


def test_a_step_that_the_scaler_skipped_is_excused():
    norm = [math.inf if step in (0, 1, 2, 40) else 1.0 for step in range(60)]
    flags = [5 if step in (0, 1, 2, 40) else 0 if step in (3, 41) else None for step in range(60)]
    tables = {
        "scalars": scalars(loss=[0.5] * 60, grad_norm=norm, nonfinite_gradients=flags),
        "spans": spans("skipped", [0, 1, 2, 40]),
    }
    (issue,) = same_in_pieces(NonFiniteGradient(), **tables)
    assert (issue.code, issue.severity, issue.count) == ("excused", "info", 4)
    rows = [tensor("gradient/a", 7, nan=4, state="skipped"), tensor("gradient/a", 8)]
    (issue,) = judged(NonFiniteGradient(), tensors=Table.of("tensors", rows))
    assert issue.severity == "info"


def test_healthy_trainings_are_left_alone():
    fared = run(NonFiniteGradient(), scalars=scalars(loss=[0.5] * 60, grad_norm=[1.0] * 60))
    assert (fared.issues, fared.points) == ({}, 60)
    evaluation = scalars(loss=[math.nan], mode="eval", first=30)
    assert judged(NonFiniteGradient(), scalars=Table.concat([scalars(loss=[0.5] * 60), evaluation])) == []


def test_without_anything_it_says_what_to_record():
    fared = run(NonFiniteGradient(), scalars=Table.empty("scalars"))
    assert (fared.covered, fared.reason) == (0, "no_input")
