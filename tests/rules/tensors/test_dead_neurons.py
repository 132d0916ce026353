"""Tests of the rule DeadNeurons."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, values

from holter.rules.tensors.dead_neurons import DeadNeurons
from holter.schema.table import Table


def activity(chance, *, steps=20, samples=1024, every=10, ranks=1, seed=0):
    """Counts of a layer whose unit i is active with chance[i]."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(steps):
        for rank in range(ranks):
            for kind, found in (("active", rng.binomial(samples, chance)), ("samples", [samples])):
                rows += values("relu1_output_0", i * every, kind, found, rank=rank)
    return Table.of("tensor_values", rows)


def test_units_that_fire_seldom_are_alive():
    for seed in range(3):
        assert judged(DeadNeurons(), tensor_values=activity(np.full(64, 0.001), seed=seed)) == []


@pytest.mark.parametrize(("dead", "severity"), [(8, "info"), (24, "warning"), (40, "critical")])
def test_dead_units_are_counted(dead, severity):
    chance = np.where(np.arange(64) < dead, 0.0, 0.3)
    (issue,) = same_in_pieces(DeadNeurons(), tensor_values=activity(chance, ranks=2))
    assert (issue.severity, issue.tensor) == (severity, "relu1_output_0")
    assert issue.evidence["dead"] == list(range(dead))


def test_units_that_one_rank_alone_activates_are_alive():
    rows = activity(np.zeros(64), ranks=2)
    rows["value"][(rows["rank"] == 1) & (rows["kind"] == "active")] = 3
    assert judged(DeadNeurons(), tensor_values=rows) == []


def test_small_layers_and_few_samples_are_not_judged():
    assert judged(DeadNeurons(), tensor_values=activity(np.zeros(8))) == []
    fared = run(DeadNeurons(), tensor_values=activity(np.zeros(64), steps=3))
    assert (fared.covered, fared.reason) == (0, "too_few_points")


def test_without_activity_it_says_what_to_record():
    fared = run(DeadNeurons(), tensor_values=Table.empty("tensor_values"))
    assert (fared.covered, fared.reason) == (0, "no_input")
    assert "--save activations" in fared.lack
