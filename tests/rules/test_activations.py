"""DeadNeurons and NumericHeadroom: what activations and their extremes tell."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.training import judged, run, same_in_pieces, scalars, tensor, values

from holter.rules.tensors.dead_neurons import DeadNeurons
from holter.rules.training.numeric_headroom import NumericHeadroom
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


def sizes(series, *, every=100, name="block.3_output_0", low=None, role="output", **statistics):
    rows = [
        {**tensor(name, i * every, max=v, min=-v if low is None else low, **statistics), "role": role}
        for i, v in enumerate(series)
    ]
    return Table.of("tensors", rows)


SCALER = scalars(loss_scale=[65536.0] * 5, every=100)


@pytest.mark.parametrize(("share", "severity"), [(0.12, "info"), (0.3, "warning"), (0.6, "critical")])
def test_activations_near_the_largest_half(share, severity):
    rows = sizes([10, share * 65504, share * 65504])
    (issue,) = same_in_pieces(NumericHeadroom(), tensors=rows, scalars=SCALER)
    assert (issue.code, issue.severity) == ("over", severity)
    # Other types have room; one step is not yet one; a mask is no activation.
    assert judged(NumericHeadroom(), tensors=rows) == []
    assert judged(NumericHeadroom(dtype="bfloat16"), tensors=rows, scalars=SCALER) == []
    assert judged(NumericHeadroom(), tensors=sizes([10, share * 65504, 10]), scalars=SCALER) == []
    assert judged(NumericHeadroom(), tensors=sizes([10] * 5, low=-65504.0), scalars=SCALER) == []


@pytest.mark.parametrize(
    ("share", "severity"), [(0.1, None), (0.3, "info"), (0.6, "warning"), (0.95, "critical")]
)
def test_gradients_below_the_smallest_normal(share, severity):
    tiny = {"count": 10_000, "zeros": 5_000, "tiny": int(5_000 * share)}
    found = judged(NumericHeadroom(), tensors=sizes([1e-5] * 4, name="gradient/a", role="grad", **tiny))
    assert [i.severity for i in found] == ([severity] if severity else [])
    few = {"count": 10_000, "zeros": 9_990, "tiny": 10}
    assert judged(NumericHeadroom(), tensors=sizes([1e-5] * 4, name="gradient/a", role="grad", **few)) == []


def test_attention_logits():
    for high, severity in ((20, None), (60, "info"), (150, "warning")):
        rows = sizes([high] * 3, name="layers.0.attn_logits", low=-1e9, role="")
        found = judged(NumericHeadroom(), tensors=rows)
        assert [i.severity for i in found] == ([severity] if severity else [])


def test_growth_within_a_thousand_steps():
    early = [2 * 1.8**i for i in range(9)] + [400] * 12
    assert judged(NumericHeadroom(), tensors=sizes(early)) == []
    late = [20.0] * 15 + [20 * 1.6**i for i in range(1, 9)]
    (issue,) = same_in_pieces(NumericHeadroom(), tensors=sizes(late))
    assert (issue.code, issue.severity) == ("growth", "warning")
    assert judged(NumericHeadroom(), tensors=sizes([v / 100 for v in late])) == []
    wild = [20.0] * 15 + [900.0] + [20.0] * 5
    assert judged(NumericHeadroom(), tensors=sizes(wild)) == []


def test_without_tensors_it_says_what_to_record():
    fared = run(NumericHeadroom(), scalars=SCALER)
    assert (fared.covered, fared.reason) == (0, "no_input")
