"""Tests of the rule PaddingWaste."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, tensor, values

from holter.rules.data.padding_waste import PaddingWaste
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
