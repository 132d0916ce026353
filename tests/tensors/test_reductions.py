"""Reductions out of statistics, of elements, of shards: the same numbers, none where they cannot be known."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tensors.writing import Recording, statistics

from holter.analysis.tensors.parts import combined
from holter.analysis.tensors.reductions import REDUCTIONS, derived, of_elements
from holter.tensors.errors import TensorUnavailableForStep

ARRAYS = [
    np.array([[0.0, 1, 2], [3, 4, 5]]),
    np.random.default_rng(1).normal(3, 0.1, (4, 3, 2, 2)),
    np.array([-2.0, -7.5]),
    np.array(4, dtype=np.int32),
    np.array([True, False, True]),
    np.array([1.0, np.nan, np.inf, -np.inf, -3.0]),
    np.array([np.nan, np.inf]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_statistics_and_elements_give_the_same_reductions(array):
    # D19, D20, D22: population statistics, norms of the flattened tensor, any number of dimensions and type.
    stored = {key: np.array([value]) for key, value in statistics(array).items()}
    blank = {name: np.array([np.nan]) for name in REDUCTIONS}
    counts = {name: np.array([0]) for name in ("count", "nan", "posinf", "neginf", "zeros", "tiny")}
    from_statistics = {
        name: float(column[0]) for name, column in derived({**blank, **counts, **stored}).items()
    }
    from_elements = of_elements(array)
    assert set(from_statistics) == set(from_elements) == set(REDUCTIONS)
    for name, value in from_statistics.items():
        if not np.isnan(value):
            assert value == pytest.approx(from_elements[name], rel=1e-9, abs=1e-9), name
    always = {"sum", "variance", "l1", "l2", "rms", "abs_std", "abs_max", "abs_sum"}
    if np.isfinite(array).any():
        assert not {name for name in always if np.isnan(from_statistics[name])}
    assert from_elements["nonfinite"] == (~np.isfinite(array.astype(float))).sum()


def test_norms_are_of_the_flattened_tensor(tmp_path):
    # D19 and D20 by their numbers: l1 = 15 and not 7, std of the population and not of a sample.
    recording = Recording(tmp_path)
    recording.save(0, {"w": ARRAYS[0]})
    recording.save(1, {"w": ARRAYS[0]}, raw=True, rows=False)
    w = recording.open().tensors()["w"]
    for step in (0, 1):
        assert w.reduction("l1", step) == 15
        assert w.reduction("l2", step) == pytest.approx(np.sqrt(55))
        assert w.reduction("std", step) == pytest.approx(ARRAYS[0].std())


def test_a_tensor_without_a_finite_element_has_no_mean(tmp_path):
    recording = Recording(tmp_path)
    recording.save(0, {"loss": np.nan})
    loss = recording.open().tensors()["loss"]
    assert np.isnan(loss.reduction("mean", 0))
    assert loss.reduction("nan", 0) == loss.reduction("nonfinite", 0) == 1
    assert loss.reductions(0)["count"] == 1


def test_shards_combine_to_the_whole(tmp_path):
    whole = np.random.default_rng(2).normal(100, 3, 1001)
    whole[7] = np.nan
    shards = np.split(whole, [10, 600])
    recording = Recording(tmp_path, ranks=range(4))
    for rank, shard in enumerate([*shards, np.array([np.inf])]):
        recording.save(0, {"w": shard}, rank=rank, raw=rank < 3, rows=True)
    tensors = recording.open().tensors()
    expected = of_elements(np.append(whole, np.inf))
    for name in ("count", "nan", "posinf", "min", "max", "mean", "std", "abs_mean", "l1", "l2", "sum"):
        assert tensors["w"].reduction(name, 0, rank="all") == pytest.approx(expected[name], rel=1e-6), name
    row = next(tensors.reduction("std", "l2", rank="all").to_rows())
    assert (row["rank"], row["std"]) == (-1, pytest.approx(expected["std"], rel=1e-6))
    assert len(tensors["w"].history("mean", rank=1)) == 1
    with pytest.raises(TensorUnavailableForStep):  # quantiles of parts do not give those of the whole
        tensors["w"].reduction("q05", 0, rank="all")


def test_parts_of_which_one_says_nothing_leave_the_whole_unknown():
    parts = {name: np.array([1.0, np.nan]) for name in REDUCTIONS}
    parts |= {"count": np.array([4, 4])} | {
        n: np.zeros(2, int) for n in ("nan", "posinf", "neginf", "zeros", "tiny")
    }
    found = combined(parts, np.zeros(2, np.int64), 1)
    assert found["count"].tolist() == [8]
    assert all(np.isnan(found[name][0]) for name in ("mean", "std", "min", "max", "abs_mean", "q50"))


def test_batches_of_an_evaluation_are_not_taken_for_shards(tmp_path):
    recording = Recording(tmp_path, ranks=(0, 1))
    for loss in (1.0, 2.0, 3.0):
        for rank in (0, 1):
            recording.save(20, {"loss": loss + rank}, mode="eval", rank=rank)
    recording.save(20, {"other": 7.0}, mode="eval")
    loss = recording.open().tensors()["loss"]
    assert len(loss.history("mean")) == 6
    row = next(loss.history("mean", "count", rank="all").to_rows())
    assert (row["mean"], row["count"]) == (3.5, 2)
    assert loss.reduction("mean", 20, rank="all") == 3.5
    assert loss.reduction("mean", 20) == 3.0


def test_reductions_that_were_stored_on_request(tmp_path):
    # As `--save weights@1:prod,abs_min` stores them: what statistics and two ranks cannot tell otherwise.
    recording = Recording(tmp_path)
    for rank, (product, nearest) in enumerate([(-6.0, 0.5), (0.25, 0.125)]):
        recording.save(3, {"w": [-2.0, 3.0, 1.0]}, rank=rank)
        recording.describe(3, "w", rank, prod=product, abs_min=nearest)
    recording.save(4, {"w": [-2.0, 3.0, 1.0]})
    w = recording.open().tensors()["w"]
    assert (w.reduction("prod", 3), w.reduction("abs_prod", 3), w.reduction("abs_min", 3)) == (-6, 6, 0.5)
    assert w.reduction("prod", 3, rank=1) == 0.25
    assert (w.reduction("prod", 3, rank="all"), w.reduction("abs_min", 3, rank="all")) == (-1.5, 0.125)
    each = w.history("prod", "abs_min").table
    assert each["prod"][:2].tolist() == [-6, 0.25]
    assert np.isnan(each["prod"][2])
    assert w.history("prod", "abs_min", rank="all").table["abs_min"][0] == 0.125
    with pytest.raises(TensorUnavailableForStep, match="cannot be known"):
        w.reduction("prod", 4)
