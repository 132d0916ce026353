"""Tests of the rule NumericHeadroom."""

from __future__ import annotations

import pytest
from tests.rules.training_rows import judged, run, same_in_pieces, scalars, tensor

from holter.rules.training.numeric_headroom import NumericHeadroom
from holter.schema.table import Table


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
