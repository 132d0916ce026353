"""Tests of the rule DeadExperts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, values

from holter.rules.tensors.dead_experts import DeadExperts
from holter.schema.table import Table


def experts(share, *, n=100, every=20, count=2048, ranks=2, seed=0):
    """Tokens that a router gave to experts; `share` returns the part of each expert at saved step i."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        for rank in range(ranks):
            counts = rng.multinomial(count, np.array(share(i)) / np.sum(share(i)))
            rows += values("layers.0.router_counts", i * every, "value", counts, rank=rank)
    return Table.of("tensor_values", rows)


def test_uneven_but_living_experts_are_healthy():
    for seed in range(3):
        uneven = np.random.default_rng(seed).uniform(0.3, 2, size=32)
        assert judged(DeadExperts(), tensor_values=experts(lambda i, u=uneven: u, seed=seed)) == []


def test_a_router_that_finds_its_way_is_healthy():
    rows = experts(lambda i: [8] + [0.05] * 15 if i < 20 else [1] * 16)
    assert judged(DeadExperts(), tensor_values=rows) == []
    # Always some expert rests, never the same one for long.
    turns = experts(lambda i: [0.01 if e == i // 10 % 16 else 1 for e in range(16)])
    assert judged(DeadExperts(), tensor_values=turns) == []


@pytest.mark.parametrize(("dead", "severity"), [(2, "warning"), (6, "critical")])
def test_experts_without_tokens(dead, severity):
    rows = experts(lambda i: [0.01] * dead + [1] * (16 - dead))
    (issue,) = same_in_pieces(DeadExperts(), tensor_values=rows)
    assert (issue.code, issue.severity) == ("dead", severity)
    assert issue.evidence["dead"] == list(range(dead))
    assert issue.step_start == 0


def test_one_expert_that_gets_nearly_all():
    found = {i.code: i for i in judged(DeadExperts(), tensor_values=experts(lambda i: [60] + [1] * 15))}
    assert {found["load"].severity, found["entropy"].severity} == {"warning"}


def test_without_counts_it_says_what_to_record():
    fared = run(DeadExperts(), tensor_values=Table.empty("tensor_values"))
    assert (fared.covered, fared.reason) == (0, "no_input")
