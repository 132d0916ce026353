"""Samples and tensors lie series by series in their files; fractions of samples keep seven digits."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.store.strategies import new_job

from holter.store.compact import compact
from holter.store.parquet.columns import Batch
from holter.store.trial import Trial
from holter.store.writer import Writer


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e30, 1e30)))
def test_whole_numbers_are_exact_and_fractions_have_seven_digits(values: np.ndarray) -> None:
    batch = Batch("samples")
    batch.append({"time": np.arange(len(values)), "value": values}, "n0")
    kept = batch.ordered()[0]["value"]
    whole = values == np.rint(values)
    assert np.array_equal(kept[whole], values[whole])
    assert np.allclose(kept, values, rtol=6e-8, atol=1e-38)


def test_series_by_series_in_each_stretch_and_by_time_when_read(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0")
    for minute in range(30):
        for metric in ("b", "a"):
            times = np.arange(minute, minute + 1, 0.25) * 60e9
            writer.append("samples", {"time": times.astype(np.int64), "metric": [metric] * 4, "value": times})
        if minute % 3 == 2:
            writer.flush("samples")
    assert compact(folder) == 10
    (entry,) = folder.place.files("samples")
    path = folder.place.local(entry)
    lying = duckdb.sql(f"SELECT time // 600000000000 AS stretch, metric, time FROM '{path}'").fetchall()
    assert lying == sorted(lying)
    assert [row[1] for row in lying[:80:40]] == ["a", "b"]
    read = Trial(folder).table("samples")
    assert read.rows == 240
    assert np.all(np.diff(read["time"]) >= 0)


def test_tensors_lie_one_by_one_in_each_hour_and_their_elements_in_order(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "n0")
    for step in range(8):
        time = step * 15 * 60 * 10**9
        moment = {"time": [time] * 2, "step": [step] * 2, "name": ["b", "a"]}
        writer.append("tensors", moment)
        each = {key: [value[0]] * 3 + [value[1]] * 3 for key, value in moment.items()}
        writer.append("tensor_values", {**each, "kind": ["value"] * 6, "position": [0, 1, 2] * 2})
        writer.flush()
    assert compact(folder) == 16
    for table, position in (("tensors", "0"), ("tensor_values", "position")):
        (entry,) = folder.place.files(table)
        path = folder.place.local(entry)
        hour = "time // 3600000000000"
        lying = duckdb.sql(f"SELECT {hour}, name, time, {position} FROM '{path}'").fetchall()
        assert lying == sorted(lying)
        assert {row[:2] for row in lying} == {(0, "a"), (0, "b"), (1, "a"), (1, "b")}
        read = Trial(folder).table(table)
        assert np.all(np.diff(read["time"]) >= 0)
