"""Norms that ranks write of their shards are judged as the norm of the whole."""

from __future__ import annotations

import numpy as np
from tests.rules.training import judged, same_in_pieces, scalars

from holter.analysis.shards import joined
from holter.rules.gradient_norm_spike import GradientNormSpike
from holter.rules.nonfinite_gradient import NonFiniteGradient
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
