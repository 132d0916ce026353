"""Tests of the rule ReplicaDivergence."""

from __future__ import annotations

from tests.rules.training_rows import judged, run, same_in_pieces, scalars, tensor

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
