"""The heat map's numbers: they are the samples', at every width, and those of a job that goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.cli.conftest import told

from holter.pages.data.heatmap import heatmap_bytes
from holter.store import cache
from holter.store.job import create
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views import heatmap_kept
from holter.views.heatmap import Heatmap

START = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def told_of(tmp_path_factory):
    folder, _ = told("before", str(tmp_path_factory.mktemp("store")), ranks=2, cores=3, steps=50, samples=120)
    return Trial(folder)


def begun(trial):
    return int(trial.manifest["start"])


def test_rows_are_devices_in_the_order_of_what_they_are(told_of):
    rows = Heatmap(told_of, begun(told_of), 500_000_000).rows
    metrics = [row.metric for row in rows]
    assert [row.name for row in rows if row.metric == "gpu.util"] == ["gpu0", "gpu1"]
    assert sum(metric == "cpu.core.util" for metric in metrics) == 3
    assert metrics == sorted(
        metrics,
        key=["gpu.util", "cpu.core.util", "disk.read_bytes", "disk.write_bytes", "net.rx", "net.tx"].index,
    )
    assert all(row.full == 100.0 for row in rows if row.unit == "%")


@pytest.mark.parametrize("width", [3, 40])
def test_cells_are_what_the_samples_say(told_of, width):
    heatmap = Heatmap(told_of, begun(told_of), 500_000_000)
    heat = heatmap.heat(heatmap.start_ns, heatmap.end_ns, width)
    samples = told_of.table("samples", where="metric = 'cpu.core.util' AND NOT isnan(value)")
    place = next(n for n, row in enumerate(heat.rows) if (row.metric, row.name) == ("cpu.core.util", "cpu1"))
    mine = samples.where(samples["device"] == "cpu1")
    column = (mine["time"] - heat.start_ns) // heat.step_ns
    assert heat.cells.count.shape[1] <= max(width, 3)
    assert heat.cells.count[place].sum() == mine.rows
    for at in np.unique(column).tolist():
        values = mine["value"][column == at]
        assert heat.cells.low[place, at] == pytest.approx(values.min(), rel=1e-5)
        assert heat.cells.high[place, at] == pytest.approx(values.max(), rel=1e-5)
        assert heat.cells.mean[place, at] == pytest.approx(values.mean(), rel=1e-5)
    empty = np.setdiff1d(np.arange(heat.cells.count.shape[1]), column)
    assert np.isnan(heat.cells.mean[place, empty]).all()


def test_a_window_is_read_as_finely_as_it_is_seen(told_of):
    heatmap = Heatmap(told_of, begun(told_of), 500_000_000)
    begin = heatmap.start_ns + (heatmap.end_ns - heatmap.start_ns) // 3
    heat = heatmap.heat(begin, begin + 2_000_000_000, 4000)
    assert heat.step_ns == 500_000
    place = [row.name for row in heat.rows].index("gpu1")
    where = "metric = 'gpu.util' AND device = 'gpu1'"
    samples = told_of.table("samples", where=where, start_ns=begin, end_ns=begin + 2_000_000_000)
    assert samples.rows == 4
    column = (samples["time"] - heat.start_ns) // heat.step_ns
    assert heat.cells.mean[place, column] == pytest.approx(samples["value"], rel=1e-5)
    # A reading is about the half second before it, and about no more than is missing when one comes late.
    assert not np.isnan(heat.cells.mean[place, : column[-1]]).any()
    assert np.isnan(heat.cells.mean[place, column[-1] + 1 :]).all()
    with pytest.raises(ValueError, match="empty"):
        heatmap.heat(begin, begin, 10)


def write(folder, node, first, last, *, device="cpu0", value=50.0, metric="cpu.core.util"):
    time = START + np.arange(first, last) * 10**9
    writer = Writer(folder, node)
    rows = {"time": time, "device": [device] * len(time), "metric": [metric] * len(time)}
    writer.append("samples", {**rows, "value": np.full(len(time), value)})
    writer.close()


def test_a_running_job_is_continued_and_new_devices_come_in(tmp_path):
    folder = create(str(tmp_path), "runs", command=[], interval_ms=1000, rules=[], now_ns=START)
    write(folder, "n0", 0, 100)
    heatmap = Heatmap(Trial(folder), START, 10**9)
    write(folder, "n0", 100, 160, value=80.0)
    heatmap.refresh(Trial(folder))
    heat = heatmap.heat(START, heatmap.end_ns, 40)
    assert heat.cells.count.sum() == 160
    assert np.nanmax(heat.cells.high) == 80.0
    write(folder, "n1", 40, 160, device="gpu0", metric="gpu.util")
    heatmap.refresh(Trial(folder))
    assert [row.node for row in heatmap.rows] == ["n0", "n1"]
    heat = heatmap.heat(START, START + 160 * 10**9, 16)
    assert heat.cells.count.sum(axis=1).tolist() == [160, 120]
    assert np.isnan(heat.cells.mean[1, :3]).all(), "before it came there is a gap, not 0"


def test_bytes_are_measured_against_the_link_or_what_any_device_carries(tmp_path):
    folder = create(str(tmp_path), "net", command=[], interval_ms=1000, rules=[], now_ns=START)
    write(folder, "n0", 0, 10, device="", metric="net.rx", value=2e8)
    write(folder, "n0", 0, 10, device="", metric="net.link_speed", value=1.25e9)
    write(folder, "n0", 0, 10, device="", metric="disk.read_bytes", value=744.0)
    write(folder, "n0", 0, 10, device="", metric="disk.write_bytes", value=5e7)
    rows = {row.metric: row for row in Heatmap(Trial(folder), START, 10**9).rows}
    full = {metric: row.full for metric, row in rows.items()}
    assert full == {"net.rx": 1.25e9, "disk.read_bytes": 1e7, "disk.write_bytes": 5e7}
    assert rows["net.rx"].name == "network, received, of 1.25 GB/s"
    assert rows["disk.read_bytes"].name == "disk, read, of 10 MB/s"


def test_a_job_without_samples(tmp_path):
    folder = create(str(tmp_path), "none", command=[], interval_ms=1000, rules=[], now_ns=START)
    heatmap = Heatmap(Trial(folder), START, 10**9)
    data = heatmap_bytes(heatmap.heat(START, START + 10**9, 100), heatmap)
    size = int.from_bytes(data[:4], "little")
    assert json.loads(data[4 : 4 + size])["rows"] == []
    assert len(data) == 4 + size, "no columns"


def test_of_a_long_job_that_has_ended_the_whole_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = create(str(tmp_path / "store"), "long", command=[], interval_ms=1000, rules=[], now_ns=START)
    write(folder, "n0", 0, 200)
    first = Heatmap(Trial(folder), START, 10**9, worth=100)
    assert heatmap_kept.read(Trial(folder), START) is None, "a job that runs is read as it is"
    folder.update(end=START + 200 * 10**9)
    Heatmap(Trial(folder), START, 10**9, worth=100)
    head, cells = heatmap_kept.read(Trial(folder), START)
    assert head.samples == 200
    np.testing.assert_array_equal(cells.mean, first._kept.mean)
    again = Heatmap(Trial(folder), START, 10**9, worth=100)
    ends = (START, START + 200 * 10**9, 20)
    np.testing.assert_array_equal(again.heat(*ends).cells.mean, first.heat(*ends).cells.mean)
    assert again.rows == first.rows
    kept = cache.entry(folder)
    data = kept.read("heatmap.bin")
    for damaged in (b"", data[:-1], data[:40], b"\xff" * 100, data[:4] + b"{" * 200):
        kept.write("heatmap.bin", damaged)
        assert heatmap_kept.read(Trial(folder), START) is None
        assert Heatmap(Trial(folder), START, 10**9, worth=100).rows == first.rows
    write(folder, "n0", 200, 210)
    assert heatmap_kept.read(Trial(folder), START) is None, "of another number of samples"
