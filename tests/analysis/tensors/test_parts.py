"""Rows of the parts of a sharded tensor give the statistics of the whole, or nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.rules.tensor_rows import summary

from holter.analysis.tensors.parts import joined
from holter.schema.table import Table

ELEMENTS = np.random.default_rng(3).normal(2, 5, 301)
BEFORE = ELEMENTS - np.random.default_rng(4).normal(0, 0.1, 301)
CUTS = (0, 7, 7, 200, 301)
"""The second of four parts has no elements, as when a tensor has fewer rows than ranks."""


def parts(step=0, *, at=0, name="w", ranks=None):
    """Return a row for each part; `ranks` tell which part each rank holds."""
    pieces = list(itertools.pairwise(CUTS))
    found = []
    for rank, part in enumerate(range(4) if ranks is None else ranks):
        low, high = pieces[part]
        place = {"time": 1000 * step + 10 * rank + at, "rank": rank, "step": step, "mode": "train"}
        told = summary(ELEMENTS[low:high], BEFORE[low:high]) if high > low else {"count": 0}
        found.append({**place, "name": name, "role": "weight", "part": part, "parts": 4, **told})
    return found


def test_parts_of_any_size_give_the_statistics_of_the_whole():
    wholes, lacking = joined(Table.of("tensors", parts()))
    assert (wholes.rows, lacking.rows) == (1, 0)
    (row,) = wholes.to_rows()
    expected = summary(ELEMENTS, BEFORE)
    for name in ("count", "zeros", "min", "max", "mean", "std", "abs_mean"):
        assert row[name] == pytest.approx(expected[name], rel=1e-6), name
    for name in ("delta_l2", "delta_abs_mean", "delta_max"):
        assert row[name] == pytest.approx(expected[name], rel=1e-6), name
    assert np.isnan([row["q05"], row["q50"], row["q95"]]).all()
    assert (row["rank"], row["time"], row["role"], row["parts"]) == (-1, 30, "weight", 4)


def test_quantiles_are_known_where_one_part_has_all_elements():
    rows = [one for one in parts() if one["part"] == 3]
    rows += [{**rows[0], **summary([]), "part": part, "rank": 3 + part} for part in range(3)]
    (row,) = joined(Table.of("tensors", rows))[0].to_rows()
    assert row["q50"] == pytest.approx(np.median(ELEMENTS[200:]), rel=1e-6)


def test_a_step_of_which_a_part_is_missing_has_no_whole():
    rows = parts(0) + parts(1)[:3] + parts(2)
    wholes, lacking = joined(Table.of("tensors", rows))
    assert wholes["step"].tolist() == [0, 2]
    assert lacking["step"].tolist() == [1, 1, 1]


def test_ranks_that_hold_the_same_part_count_once():
    # As HSDP does: sharded over four ranks, replicated twice.
    rows = parts(ranks=(0, 1, 2, 3, 0, 1, 2, 3))
    (row,) = joined(Table.of("tensors", rows))[0].to_rows()
    assert row["count"] == len(ELEMENTS)
    (row,) = joined(Table.of("tensors", [one for one in rows if one["rank"] not in (0, 6)]))[0].to_rows()
    assert row["count"] == len(ELEMENTS)


def test_of_what_a_rank_saved_twice_the_last_counts():
    rows = parts() + [{**one, "max": 1e6, "time": one["time"] - 5} for one in parts()]
    (row,) = joined(Table.of("tensors", rows))[0].to_rows()
    assert row["max"] == pytest.approx(ELEMENTS.max(), rel=1e-6)


def test_a_fingerprint_of_the_whole_changes_with_any_part():
    found = []
    for change in (None, 0, 2, 3):
        rows = parts()
        if change is not None:
            rows[change]["fingerprint"] += 1
        found.append(int(joined(Table.of("tensors", rows))[0]["fingerprint"][0]))
    assert found[0] not in found[1:]
    rows[0]["fingerprint"] = 0
    assert joined(Table.of("tensors", rows))[0]["fingerprint"][0] == 0
