"""Slow ones are separated from the others, up to half of all."""

import numpy as np
import pytest

from holter.analysis.slow_group import ranks_text, slow_group


@pytest.mark.parametrize(
    ("values", "slow"),
    [
        ([10, 10, 10, 20], [3]),
        ([10, 20, 11, 21], [1, 3]),
        ([10, 10, 10, 11, 30, 31, 33, 30], [4, 5, 6, 7]),
        ([5, 10], [1]),
    ],
)
def test_the_slow_ones(values, slow):
    found = slow_group(np.array(values), 0.15)
    assert found is not None
    assert np.flatnonzero(found.members).tolist() == slow
    assert found.usual == np.median(np.delete(values, slow))


@pytest.mark.parametrize(
    "values", [[], [7], [10, 10, 10, 10], [10, 11, 10, 11], [10, 12, 14, 16, 18, 20, 22]]
)
def test_without_a_gap_there_is_no_group(values):
    assert slow_group(np.array(values), 0.15) is None


def test_names_of_ranks():
    assert ranks_text([3]) == "rank 3"
    assert ranks_text([7, 5, 6, 4]) == "ranks 4 to 7"
    assert ranks_text([3, 1]) == "ranks 1 and 3"
    assert ranks_text([1, 3, 5, 7]) == "ranks 1, 3, 5 and 7"
    assert ranks_text(list(range(0, 128, 2))) == "ranks 0, 2, 4 and 61 more"
