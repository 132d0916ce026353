"""Rules join the norms of shards to the norm of the whole tensor."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND
from tests.rules.tensor_rows import rows, tensor
from tests.rules.training_rows import judged, run, same_in_pieces, scalars

from holter.analysis.tensors.shards import joined
from holter.rules import Rule
from holter.rules.tensors.all_zero import AllZero
from holter.rules.tensors.unchanged_tensor import UnchangedTensor
from holter.rules.training.gradient_norm_spike import GradientNormSpike
from holter.rules.training.nonfinite_gradient import NonFiniteGradient
from holter.rules.training.replica_divergence import ReplicaDivergence
from holter.rules.training.vanishing_gradient import VanishingGradient
from holter.rules.training.weight_update_ratio import WeightUpdateRatio
from holter.schema.table import Table


def healthy(n=400):
    return 1 + 0.05 * np.random.default_rng(0).standard_normal(n)


def sharded(norms, ranks=4):
    """Split each norm over ranks, unequally."""
    shares = np.sqrt(np.arange(1, ranks + 1) / sum(range(1, ranks + 1)))
    parts = [scalars(rank=rank, grad_norm__shard=norms * share) for rank, share in enumerate(shares)]
    return Table.concat(parts)


def test_parts_join_to_the_norm_of_the_whole():
    norms = np.array([1.0, 5.0, 0.0, np.inf, np.nan])
    rows = sharded(norms)
    rows = Table.concat([rows, scalars(loss=[1, 2, 3, 4, 5])])
    found = joined(rows)
    assert found.rows == 10
    of = found.where(found["name"] == "grad_norm")
    order = np.argsort(of["step"])
    np.testing.assert_allclose(of["value"][order], norms)
    assert joined(found) is found


def test_a_spike_is_found_in_shards_as_in_the_whole():
    norms = healthy()
    norms[300] = 12
    (of_whole,) = same_in_pieces(GradientNormSpike(), scalars=scalars(grad_norm=norms))
    (of_parts,) = same_in_pieces(GradientNormSpike(), scalars=sharded(norms))
    assert (of_parts.code, of_parts.severity, of_parts.step_start) == (of_whole.code, of_whole.severity, 300)
    assert of_parts.evidence.keys() == of_whole.evidence.keys()
    assert judged(GradientNormSpike(), scalars=sharded(healthy())) == []


def test_the_rank_whose_shard_is_not_finite_is_named():
    rows = sharded(healthy(40))
    value = rows["value"].copy()
    value[(rows["rank"] == 2) & (rows["step"] == 30)] = np.nan
    (issue,) = judged(NonFiniteGradient(), scalars=Table({**rows.columns, "value": value}))
    assert (issue.code, issue.step_start, issue.evidence["ranks"]) == ("nonfinite", 30, [2])
    assert abs(issue.evidence["last_finite"]["grad_norm"] - healthy(40)[29]) < 1e-9


def divided(name, by_step, *, role, ranks=3):
    """Make the rows that ranks write of their parts of one tensor, each a little later."""
    rows = []
    for rank in range(ranks):
        parts = {step: np.array_split(values, ranks)[rank] for step, values in by_step.items()}
        told = {"part": rank, "parts": ranks}
        saved = tensor(name, parts, role=role, rank=rank)
        rows += [{**row, **told, "time": row["time"] + rank * SECOND // 4} for row in saved]
    return rows


def training(steps=20, **changed):
    """Return tensors by name and step, of a healthy training but for what is `changed`."""
    random = np.random.default_rng(1)
    tensors = {
        name: random.standard_normal((steps, 90)) for name in ("gradient/a", "gradient/b", "gradient/c")
    }
    tensors |= {
        name: np.cumsum(1e-3 * random.standard_normal((steps, 90)), axis=0) + 1 for name in ("a", "b")
    }
    for name, change in changed.items():
        tensors[name.replace("__", "/")] = change(tensors[name.replace("__", "/")])
    return {name: dict(enumerate(values)) for name, values in tensors.items()}


def both(tensors):
    """Return the rows of tensors as one rank would save them whole, and as three would save parts."""
    roles = {name: "grad" if "/" in name else "weight" for name in tensors}
    at_once = [tensor(name, values, role=roles[name]) for name, values in tensors.items()]
    return rows(*at_once), rows(*(divided(name, v, role=roles[name]) for name, v in tensors.items()))


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        (VanishingGradient(), {"gradient__b": lambda values: values * 1e-9}),
        (WeightUpdateRatio(), {"a": lambda values: values * np.arange(1, 21)[:, None]}),
        (AllZero(), {"gradient__c": lambda values: values * 0}),
        (UnchangedTensor(), {"b": lambda values: values[:1].repeat(20, axis=0)}),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Rule) else "",
)
def test_sharded_tensors_are_judged_as_the_whole(rule, changed):
    whole, parts = both(training(**changed))
    expected, found = judged(rule, tensors=whole), same_in_pieces(rule, tensors=parts)
    assert expected
    assert [(one.code, one.tensor, one.step_start) for one in found] == [
        (one.code, one.tensor, one.step_start) for one in expected
    ]
    assert {one.rank for one in found} == {None}
    for a, b in zip(found, expected, strict=True):
        assert a.evidence["value"] == pytest.approx(b.evidence["value"], rel=1e-5)
    whole, parts = both(training())
    assert judged(rule, tensors=parts) == judged(rule, tensors=whole) == []


@pytest.mark.parametrize("profile", ["modern", "classic"])
def test_rows_of_an_embedding_that_no_batch_reached_are_no_vanishing_gradient(profile):
    def reached(values):
        values[:, 30:] = 0  # none of the rows that ranks 1 and 2 hold
        return values

    _, parts = both(training(gradient__a=reached))
    for rule in (VanishingGradient, AllZero):
        assert judged(rule.of({}, defaults=profile), tensors=parts) == []


def test_a_step_that_lacks_a_part_is_not_judged():
    _, parts = both(training(gradient__b=lambda values: values * 1e-9))
    fared = run(VanishingGradient(), tensors=parts.where(parts["rank"] != 2))
    assert (fared.issues, fared.covered) == ({}, 0)


def test_parts_that_began_alike_are_no_replicas_that_diverged():
    drawn = np.random.default_rng(2).standard_normal((20, 90))
    drawn[:4] = 0  # as biases begin, with a learning rate that warms up
    _, parts = both({"bias": dict(enumerate(drawn))})
    assert judged(ReplicaDivergence(), tensors=parts) == []
    same = Table({**parts.columns, "parts": np.zeros(parts.rows, np.int32)})
    assert judged(ReplicaDivergence(), tensors=same) != []
