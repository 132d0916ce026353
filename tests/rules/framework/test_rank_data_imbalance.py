"""Tests of the rule RankDataImbalance."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import SECOND, START, found, look

from holter.rules.framework.rank_data_imbalance import RankDataImbalance
from holter.schema.table import Table


def amounts(tokens: np.ndarray) -> Table:
    """Make scalars `tokens` of ranks by steps."""
    rows = [
        {"time": START + step * SECOND + rank, "rank": rank, "step": step, "name": "tokens", "value": value}
        for rank, row in enumerate(tokens.tolist())
        for step, value in enumerate(row)
    ]
    return Table.of("scalars", rows)


def test_a_rank_with_half_as_many_tokens_again_is_named():
    tokens = np.full((4, 100), 1000.0)
    tokens[2] = 1500
    (issue,) = found(RankDataImbalance(), scalars=amounts(tokens))
    assert (issue.severity, issue.rank) == ("warning", 2)
    assert issue.evidence["excess_pct"] == pytest.approx(50)


def test_lengths_that_vary_by_chance_name_no_rank():
    generator = np.random.default_rng(30)
    tokens = generator.integers(200, 1800, (8, 100)).astype(float)
    (issue,) = found(RankDataImbalance(), scalars=amounts(tokens))
    assert issue.rank is None
    assert found(RankDataImbalance(), scalars=amounts(generator.normal(1000, 50, (8, 100)))) == []


def test_a_last_small_batch_is_no_imbalance():
    tokens = np.full((2, 200), 64.0)
    tokens[1, 49::50] = 3
    assert found(RankDataImbalance(), scalars=amounts(tokens)) == []


def test_unknown_amounts_cannot_be_compared():
    assert look(RankDataImbalance(), scalars=amounts(np.full((1, 100), 5.0)))[1].lack.reason == "no_match"
    loss = Table.of("scalars", [{"time": START, "rank": 0, "step": 0, "name": "loss", "value": 1.0}])
    assert look(RankDataImbalance(), scalars=loss)[1].lack.reason == "no_input"
