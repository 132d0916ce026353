"""PaddingWaste and DeadExperts: what small tensors that are saved as they are tell."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training import judged, run, same_in_pieces, tensor, values

from holter.rules.data.padding_waste import PaddingWaste
from holter.rules.tensors.dead_experts import DeadExperts
from holter.schema.table import Table


def tokens(lengths, *, width=32, batch=8, n=60, pad=0, left=False, seed=0, name="input_ids"):
    """Batches of random tokens; `lengths` draws how long the texts are."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        ids = rng.integers(5, 1000, size=(batch, width))
        for row, length in zip(ids, lengths(rng, batch), strict=True):
            row[slice(0, width - length) if left else slice(length, width)] = pad
        rows += values(name, i, "value", ids) + values(name, i, "shape", ids.shape)
    return Table.of("tensor_values", rows)


def test_full_and_packed_batches_are_healthy():
    assert judged(PaddingWaste(), tensor_values=tokens(lambda r, n: [32] * n)) == []
    # Each text ends with the same token, and one row in two is one token short.
    ends = tokens(lambda r, n: [31, 32] * (n // 2), pad=2)
    assert judged(PaddingWaste(), tensor_values=ends) == []


@pytest.mark.parametrize(("length", "severity"), [(26, "info"), (20, "warning"), (10, "critical")])
@pytest.mark.parametrize("left", [False, True])
def test_the_share_of_padding_decides(length, severity, left):
    rows = tokens(lambda r, n: [length] * n, left=left)
    (issue,) = judged(PaddingWaste(), tensor_values=rows)
    assert issue.severity == severity
    assert issue.evidence["padding_share"] == pytest.approx(1 - length / 32)
    assert issue.evidence["padding_share_bucketed"] == 0


def test_a_known_padding_token_and_what_bucketing_would_leave():
    rows = tokens(lambda r, n: r.integers(4, 33, size=n), pad=3)
    (issue,) = same_in_pieces(PaddingWaste(pad_id=3), tensor_values=rows)
    assert issue.evidence["padding_share"] == pytest.approx(0.44, abs=0.03)
    assert issue.evidence["padding_share_bucketed"] < 0.05


def test_token_ids_are_known_by_their_role_too():
    rows = tokens(lambda r, n: [10] * n, name="Net_input_0")
    role = Table.of("tensors", [{**tensor("Net_input_0", 0), "role": "token_ids"}])
    assert judged(PaddingWaste(), tensor_values=rows) == []
    assert judged(PaddingWaste(), tensor_values=rows, tensors=role)


def test_few_batches_and_none():
    fared = run(PaddingWaste(), tensor_values=tokens(lambda r, n: [10] * n, n=20))
    assert (fared.covered, fared.reason, fared.have) == (0, "too_few_points", 20)
    assert run(PaddingWaste(), tensor_values=Table.empty("tensor_values")).reason == "no_input"


def experts(share, *, n=100, every=20, count=2048, ranks=2, seed=0):
    """Tokens that a router gave to experts; `share` tells what part each gets at saved step i."""
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
