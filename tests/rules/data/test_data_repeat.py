"""Tests of the rule DataRepeat."""

from __future__ import annotations

import numpy as np
from tests.rules.training_rows import judged, run, same_in_pieces, tensor

from holter.rules.data.data_repeat import DataRepeat
from holter.schema.table import Table


def batches(prints, *, ranks=2, n=60, weight=lambda rank, i: 7):
    rows = []
    for rank in range(ranks):
        for i in range(n):
            given = {"role": "model_input:0", "fingerprint": prints(rank, i)}
            rows.append({**tensor("net_input_0", i, rank=rank), **given})
            rows.append(tensor("fc.weight", i, rank=rank, fingerprint=weight(rank, i)))
    return Table.of("tensors", rows)


def test_batches_of_their_own_are_healthy():
    assert judged(DataRepeat(), tensors=batches(lambda rank, i: 1 + rank + 2 * i)) == []


def test_the_same_batch_on_two_ranks_is_a_warning():
    (issue,) = same_in_pieces(DataRepeat(), tensors=batches(lambda rank, i: 1 + i))
    assert (issue.code, issue.severity) == ("ranks", "warning")
    assert issue.evidence["ranks"] == [0, 1]


def test_ranks_that_share_a_batch_to_split_the_model_are_healthy():
    rows = batches(lambda rank, i: 1 + i, weight=lambda rank, i: 7 + rank)
    assert judged(DataRepeat(), tensors=rows) == []


def test_an_input_that_never_changes_says_nothing():
    assert judged(DataRepeat(), tensors=batches(lambda rank, i: 5)) == []


def test_epochs_in_the_same_order_are_info():
    (issue,) = same_in_pieces(DataRepeat(), tensors=batches(lambda rank, i: 1 + i % 20, ranks=1))
    assert (issue.code, issue.severity) == ("order", "info")
    assert issue.evidence["lag_steps"] == 20
    rng = np.random.default_rng(0)
    shuffled = [int(batch) for _ in range(3) for batch in 1 + rng.permutation(20)]
    assert judged(DataRepeat(), tensors=batches(lambda rank, i: shuffled[i], ranks=1)) == []


def test_without_inputs_it_says_what_to_record():
    fared = run(DataRepeat(), tensors=Table.of("tensors", [tensor("a", 0, fingerprint=3)]))
    assert (fared.covered, fared.reason) == (0, "no_input")
