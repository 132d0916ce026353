"""The recent rows of a job: independent of the order of arrival, and equal to a brute-force search."""

from __future__ import annotations

import numpy as np
import pytest

from holter.rules import Lookback, Series
from holter.rules.engine.lookback import RecentData
from holter.schema.table import Table

S = 10**9


def steps(seed: int, ranks: int = 4, stops: int | None = None) -> Table:
    """Make steps of several ranks, of which one may stop early."""
    random = np.random.default_rng(seed)
    rows = []
    for rank in range(ranks):
        count = 10 if rank == stops else 200
        ends = np.cumsum(random.integers(S // 2, 2 * S, count))
        rows += [
            {"time": int(e) - 1000, "duration": 1000, "rank": rank, "step": n} for n, e in enumerate(ends)
        ]
    return Table.of("steps", rows)


@pytest.mark.parametrize("stops", [None, 2])
@pytest.mark.parametrize("last", [1, 7, 150])
def test_the_last_steps_of_each_rank_are_those_that_brute_force_finds(stops, last):
    table = steps(1, stops=stops)
    recent = RecentData({"steps": Lookback(steps=last)})
    ends = table["time"] + table["duration"]
    judged = 0
    for moment in range(20 * S, 260 * S, 20 * S):
        recent.add("steps", table.where((ends > judged) & (ends <= moment)), judged)
        found = recent.rows("steps", judged, moment, last)
        for rank in range(4):
            mine = table["step"][(table["rank"] == rank) & (ends <= moment)]
            assert sorted(found["step"][found["rank"] == rank].tolist()) == sorted(mine.tolist())[-last:]
        recent.forget(moment, moment)
        judged = moment


def test_samples_are_the_same_by_rows_and_by_series():
    random = np.random.default_rng(2)
    rows = [
        {
            "time": t * S,
            "metric": m,
            "device": d,
            "node": n,
            "value": random.choice([1.0, 2.5, np.nan, np.inf]),
        }
        for t in range(50)
        for m in ("gpu.util", "gpu.power")
        for d in ("gpu0", "gpu1")
        for n in ("a", "b")
    ]
    table = Table.of("samples", rows).where(random.permutation(len(rows))).sorted("time")
    one, other = RecentData(), RecentData()
    one.add("samples", table, 7 * S)
    for metric in ("gpu.util", "gpu.power"):
        for node in ("a", "b"):
            for device in ("gpu0", "gpu1"):
                mine = table.where(
                    (table["metric"] == metric) & (table["node"] == node) & (table["device"] == device)
                ).sorted("time")
                other.add_series(metric, (node, device), Series(mine["time"], mine["value"]), 7 * S)
    for metric in ("gpu.util", "gpu.power"):
        a, b = (recent.series(metric, 0, 60 * S) for recent in (one, other))
        assert list(a) == list(b) == [("a", "gpu0"), ("a", "gpu1"), ("b", "gpu0"), ("b", "gpu1")]
        for place in a:
            assert a[place].time.tolist() == b[place].time.tolist()
            assert a[place].value.tolist() == b[place].value.tolist()
            assert a[place].time.min() > 7 * S  # what is late counts after what was judged
            assert np.isfinite(a[place].value).all()


def test_what_is_asked_twice_is_worked_out_once():
    recent = RecentData()
    recent.add("steps", steps(3), 0)
    assert recent.rows("steps", 0, 90 * S) is recent.rows("steps", 0, 90 * S)
    before = recent.rows("steps", 0, 90 * S).rows
    recent.add("steps", Table.of("steps", [{"time": 5 * S, "duration": 1, "rank": 9, "step": 0}]), 0)
    assert recent.rows("steps", 0, 90 * S).rows == before + 1


def test_a_selection_of_a_table_is_what_indexing_gives():
    table = steps(4, ranks=2)
    mask = table["step"] % 3 == 0
    some = table.where(mask).where(slice(2, 40)).where(np.array([5, 1, 1]))
    whole = table["time"][mask][2:40][[5, 1, 1]]
    assert some["time"].tolist() == whole.tolist()
    assert (some.rows, len(some)) == (3, 3)
    assert "time" in some
    assert "nothing" not in some
    assert list(some.columns) == list(table.columns)
    assert table.where([]).rows == 0
    assert table.where(slice(0, 0))["time"].tolist() == []
    with pytest.raises(IndexError):
        some.where(mask)
    with pytest.raises(KeyError):
        some["nothing"]
