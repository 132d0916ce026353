"""ReplicaDivergence and DataRepeat: fingerprints of several ranks compared."""

from __future__ import annotations

import numpy as np
from tests.rules.training import judged, run, same_in_pieces, scalars, tensor

from holter.rules.data.data_repeat import DataRepeat
from holter.rules.training.replica_divergence import ReplicaDivergence
from holter.schema.table import Table


def weights(prints, *, every=500, names=("fc1.weight", "fc2.weight")):
    """A function of rank, step number and name → fingerprint, for four ranks and ten saved steps."""
    rows = [
        tensor(name, i * every, rank=rank, fingerprint=prints(rank, i, name))
        for rank in range(4)
        for i in range(10)
        for name in names
    ]
    return Table.of("tensors", rows)


def test_replicas_that_are_the_same_or_shards_are_healthy():
    assert judged(ReplicaDivergence(), tensors=weights(lambda rank, i, name: 100 + i)) == []
    assert judged(ReplicaDivergence(), tensors=weights(lambda rank, i, name: 100 + i * 10 + rank)) == []
    experts = weights(lambda rank, i, name: 100 + i * 10 + rank * ("fc2" in name))
    assert judged(ReplicaDivergence(), tensors=experts) == []


def test_the_rank_that_differs_from_the_majority_is_named():
    rows = weights(lambda rank, i, name: 100 + i * 10 + (rank == 2 and i >= 6 and name == "fc2.weight"))
    (issue,) = same_in_pieces(ReplicaDivergence(), tensors=rows)
    assert (issue.severity, issue.rank, issue.step_start) == ("critical", 2, 3500)
    assert issue.evidence["first"] == "fc2.weight"
    assert issue.evidence["minority"] == [2]


def test_a_difference_at_one_saved_step_only_is_not_yet_one():
    rows = weights(lambda rank, i, name: 100 + i * 10 + (rank == 2 and i == 6))
    assert judged(ReplicaDivergence(), tensors=rows) == []


def test_numbers_that_must_be_the_same_are_compared():
    one, other = [1e-3] * 60, [1e-3] * 40 + [5e-4] * 20
    rows = Table.concat([scalars(lr=one), scalars(rank=1, lr=other)])
    (issue,) = same_in_pieces(ReplicaDivergence(), scalars=rows)
    assert (issue.code, issue.severity) == ("scalar", "critical")
    different = Table.concat([scalars(lr=one), scalars(rank=1, lr=[1e-4] * 60)])
    assert judged(ReplicaDivergence(), scalars=different) == []


def test_one_rank_is_nothing_to_compare():
    fared = run(ReplicaDivergence(), tensors=Table.of("tensors", [tensor("a", 0, fingerprint=3)]))
    assert (fared.covered, fared.reason) == (0, "no_input")
    assert "--save weights" in fared.lack


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
