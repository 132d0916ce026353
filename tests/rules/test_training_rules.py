"""What all rules about losses and tensors promise for any rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.rules.tables import SECOND, START
from tests.rules.training_rows import judged

from holter.rules import find
from holter.schema.table import Table

NAMES = """
NonFiniteGradient LossSpike GradientNormSpike DeadNeurons LossScaleCollapse
OptimizerNotStepping MissingGradient UnevenGradientScale NumericHeadroom LostUpdates
ReplicaDivergence PaddingWaste DeadExperts ValidationNotRun MetricDivergence DataRepeat
"""
RULES = [find(name) for name in NAMES.split()]
EAGER = {
    "start_steps": 0, "min_steps": 1, "steps": 2, "min_layers": 3, "batches": 1, "min_samples": 1,
    "min_units": 1, "history": 5, "planned_steps": 8, "evaluations": 2, "again": 2,
}  # fmt: skip

place = {
    "time": st.integers(0, 400).map(lambda s: START + s * SECOND),
    "rank": st.integers(-1, 2),
    "step": st.integers(-1, 30),
    "mode": st.sampled_from(["train", "train", "eval", "global"]),
}
number = st.one_of(
    st.floats(width=32), st.sampled_from([0.0, 1.0, -1.0, 1e38, 3.0]), st.integers(-3, 9).map(float)
)
count = st.sampled_from([0, 1, 5, 1000, 2**62])
statistic = dict.fromkeys(
    ("min", "max", "mean", "std", "abs_mean", "q50", "delta_l2", "delta_abs_mean", "delta_max"), number
)
scalar_names = [
    "loss",
    "lr",
    "lr/1",
    "grad_norm",
    "grad_norm_clipped",
    "loss_scale",
    "nonfinite_gradients",
    "val_acc",
]
tensor_names = [
    "layers.0.w",
    "gradient/layers.0.w",
    "layers.1.w",
    "gradient/layers.1.w",
    "attn_logits",
    "x_input_0",
]
roles = ["weight", "grad", "act_out:relu", "output", "model_input:0", "token_ids", "embedding", ""]
tables = st.fixed_dictionaries(
    {
        "scalars": st.lists(
            st.fixed_dictionaries({**place, "name": st.sampled_from(scalar_names), "value": number}),
            max_size=40,
        ),
        "spans": st.lists(
            st.fixed_dictionaries(
                {
                    **place,
                    "phase": st.sampled_from(["skipped", "optimizer"]),
                    "name": st.sampled_from(["", "AdamW"]),
                }
            ),
            max_size=8,
        ),
        "events": st.lists(
            st.fixed_dictionaries(
                {
                    "time": place["time"],
                    "rank": place["rank"],
                    "kind": st.sampled_from(["nonfinite", "loader"]),
                    "name": st.sampled_from(["", "fc"]),
                    "detail": st.sampled_from(["", "[]", "{", '{"direction": 3}', "null"]),
                }
            ),
            max_size=3,
        ),
        "tensors": st.lists(
            st.fixed_dictionaries(
                {
                    **place,
                    **statistic,
                    **dict.fromkeys(("count", "nan", "posinf", "neginf", "zeros", "tiny"), count),
                    "name": st.sampled_from(tensor_names),
                    "role": st.sampled_from(roles),
                    "state": st.sampled_from(["", "", "frozen", "unused", "skipped"]),
                    "fingerprint": st.sampled_from([0, 1, 2, -(2**63)]),
                }
            ),
            max_size=40,
        ),
        "tensor_values": st.lists(
            st.fixed_dictionaries(
                {
                    **place,
                    "name": st.sampled_from(["input_ids", "router_counts", "relu_output_0"]),
                    "kind": st.sampled_from(["value", "shape", "active", "samples", "histogram"]),
                    "position": st.integers(-1, 4),
                    "value": number,
                }
            ),
            max_size=40,
        ),
    }
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@settings(max_examples=8, deadline=None, phases=[Phase.generate])
@given(rows=tables, seed=st.integers(0, 99))
def test_no_rows_make_it_raise_and_their_order_does_not_matter(rule, rows, seed):
    names = {p.name for p in rule.parameters()}
    eager = rule.of({name: value for name, value in EAGER.items() if name in names})
    whole = {name: Table.of(name, listed) for name, listed in rows.items()}
    shuffled = {n: t.where(np.random.default_rng(seed).permutation(t.rows)) for n, t in whole.items()}
    with np.errstate(all="ignore"):
        assert sorted(map(str, judged(eager, **whole))) == sorted(map(str, judged(eager, **shuffled)))
        judged(eager, cuts=4, **whole)
