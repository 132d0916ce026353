"""Records that ride on others are put back where they were."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holter.agent.drain.segments import RECORD, unfold
from holter.schema.phases import Phase

NAN = float("nan")


def records(*rows):
    return np.array([(*row[:2], row[2], row[3], 7, 1, row[4]) for row in rows], RECORD)


def told(array):
    return [
        (
            int(r["begin"]),
            int(r["duration"]),
            None if np.isnan(r["value"]) else float(r["value"]),
            int(r["step"]),
            Phase(r["phase"]),
        )
        for r in array
    ]


def test_a_loss_and_a_step_are_told_apart_from_what_they_rode_on():
    found = unfold(
        records(
            (100, 50, NAN, 3, Phase.FORWARD),
            (150, 10, 0.25, 3, Phase.LOSS),
            (160, 60, NAN, 3, Phase.BACKWARD),
            (230, 20, 140.0, 3, Phase.OPTIMIZER),
        )
    )
    assert told(found) == [
        (100, 50, None, 3, Phase.FORWARD),
        (150, 10, None, 3, Phase.LOSS),
        (160, 0, 0.25, 3, Phase.SCALAR),
        (160, 60, None, 3, Phase.BACKWARD),
        (230, 20, None, 3, Phase.OPTIMIZER),
        (90, 160, None, 3, Phase.STEP),
    ]
    assert found["name"].tolist() == [7, 7, 7, 7, 7, 0]


@given(
    st.lists(
        st.tuples(
            st.integers(10**9, 10**12),
            st.integers(0, 10**9),
            st.sampled_from([NAN, 0.0, 1.5, float("inf"), 1e8]),
            st.integers(-1, 5),
            st.sampled_from([Phase.FORWARD, Phase.STEP, Phase.SCALAR, Phase.DATA_LOADING, Phase.H2D]),
        )
    )
)
def test_all_other_records_stay_as_they_are(rows):
    plain = records(*rows)
    assert unfold(plain).tobytes() == plain.tobytes()
