"""Percentiles and downsampled series of the library, against numpy on the same readings."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.conftest import told

import holter
from holter.views import readings


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, story = told(
        "before", str(tmp_path_factory.mktemp("readings") / "store"), ranks=2, cores=4, steps=30, samples=2000
    )
    return holter.open(folder.url), story


def of(story, metric, device=None):
    chosen = story.samples["metric"] == metric
    if device is not None:
        chosen &= story.samples["device"] == device
    return story.samples.where(chosen)


@pytest.mark.parametrize("by_device", [False, True])
def test_percentiles_are_those_of_numpy(made, by_device):
    job, story = made
    rows = job.percentiles(by_device=by_device).table
    assert set(rows["metric"]) == set(story.samples["metric"])
    for row in rows.to_rows():
        values = of(story, row["metric"], row["device"] if by_device else None)["value"]
        assert row["count"] == len(values)
        expected = np.percentile(values, [0, 50, 90, 95, 99, 100])
        found = [row[name] for name in ("min", "p50", "p90", "p95", "p99", "max")]
        assert found == pytest.approx(expected.tolist())
        assert row["looked_at_pct"] == 100


def test_of_many_readings_percentiles_stand_on_a_part_and_say_so(made, monkeypatch):
    job, _ = made
    monkeypatch.setattr(readings, "MOST_ROWS", 3000)
    rows = {row["metric"]: row for row in job.percentiles()}
    exact = {row["metric"]: row for row in job.percentiles(exact=True)}
    for metric, row in rows.items():
        assert row["looked_at_pct"] < 50
        assert exact[metric]["looked_at_pct"] == 100
        assert [row[n] for n in ("count", "min", "max")] == [
            exact[metric][n] for n in ("count", "min", "max")
        ]
        assert row["p50"] == pytest.approx(exact[metric]["p50"], abs=5, rel=0.1)


def test_a_range_of_time(made):
    job, story = made
    values = of(story, "gpu.util", "gpu0")
    start, end = int(values["time"][100]), int(values["time"][300])
    (row,) = [
        row
        for row in job.percentiles(start_ns=start, end_ns=end, by_device=True)
        if (row["metric"], row["device"]) == ("gpu.util", "gpu0")
    ]
    assert row["count"] == 200
    assert row["p50"] == pytest.approx(float(np.median(values["value"][100:300])))


@pytest.mark.parametrize("buckets", [1, 7, 100, 5000])
def test_downsampled_nothing_is_lost(made, buckets):
    job, story = made
    values = of(story, "gpu.util", "gpu0")
    stored = values["value"].astype(np.float32)
    rows = job.downsample("gpu.util", device="gpu0", buckets=buckets).table
    assert rows["count"].sum() == len(values["value"])
    assert rows.rows <= buckets
    assert rows["max"].max() == stored.max()
    assert rows["min"].min() == stored.min()
    mean = (rows["mean"] * rows["count"]).sum() / rows["count"].sum()
    assert mean == pytest.approx(values["value"].mean())
    assert (np.diff(rows["time"]) > 0).all()
    first, last = int(values["time"][0]), int(values["time"][-1])
    edges = first + np.arange(buckets + 1) * (last + 1 - first) // buckets
    inside = np.searchsorted(edges, values["time"], side="right") - 1
    assert set(edges[inside]) == set(rows["time"])


def test_what_is_not_there_is_named(made):
    job, _ = made
    with pytest.raises(ValueError, match=r"no reading of metric 'gpu.utl'; did you mean 'gpu.util'\?"):
        job.downsample("gpu.utl")
    with pytest.raises(ValueError, match=r"no reading of metric 'gpu\.util', device 'gpu9'$"):
        job.downsample("gpu.util", device="gpu9")
    with pytest.raises(ValueError, match="buckets is 0"):
        job.downsample("gpu.util", buckets=0)
