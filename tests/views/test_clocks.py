"""Rows of several nodes are read on one clock; the files stay as they were written."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from holter.store.clocks import ClockCorrection
from holter.store.job import JobFolder, create
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.clocks import aligned
from holter.views.timeline.lanes import Timeline

START = 1_700_000_000_000_000_000
MS = 1_000_000
AHEAD = {"a": 0, "b": 500 * MS, "c": -500 * MS}
PPM = {"a": 0.0, "b": 50.0, "c": -50.0}
STEPS = 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> JobFolder:
    """Return a job of three nodes with a rank each, whose collectives end together every 100 ms."""
    store = tmp_path_factory.mktemp("store")
    made = create(str(store), "skewed", command=["x"], interval_ms=500, rules=[], now_ns=START)
    made.update(framework={"name": "pytorch", "version": "2", "device": "cpu"})
    random = np.random.default_rng(0)
    true = START + np.arange(1, STEPS + 1) * 100 * MS
    for rank, node in enumerate(AHEAD):
        made.write_node(node, {"cpus": 8, "status": "Completed"})
        seen = true + AHEAD[node] + (PPM[node] * 1e-6 * (true - START)).astype(np.int64)
        noisy = seen + random.normal(0, 100_000, STEPS).astype(np.int64)
        writer = Writer(made, node)
        length = np.full(STEPS, 20 * MS)
        columns = {
            "time": noisy - length,
            "duration": length,
            "rank": np.full(STEPS, rank, np.int32),
            "worker": np.full(STEPS, -1, np.int16),
            "thread": np.zeros(STEPS, np.int16),
            "step": np.arange(STEPS),
            "mode": ["train"] * STEPS,
            "phase": ["communication"] * STEPS,
            "name": ["all_reduce"] * STEPS,
            "value": np.zeros(STEPS),
        }
        writer.append("spans", columns)
        writer.close()
    return made


def ends(trial: Trial) -> dict[str, np.ndarray]:
    spans = trial.table("spans", columns=("node", "step", "time", "duration"))
    found = {}
    for node in AHEAD:
        mine = spans.where(spans["node"] == node).sorted("step")
        found[node] = mine["time"] + mine["duration"]
    return found


def test_a_job_is_read_on_one_clock(folder: JobFolder) -> None:
    before = {entry.key: entry for entry in folder.place.files()}
    trial = aligned(Trial(folder))
    found = ends(trial)
    for node in ("b", "c"):
        apart = found[node] - found["a"]
        assert abs(float(np.median(apart))) < 100_000
        for part in (apart[:100], apart[-100:]):
            assert abs(float(np.median(part))) < 100_000
    assert {entry.key: entry for entry in folder.place.files()} == before
    raw = ends(Trial(folder))
    assert float(np.median(raw["b"] - raw["a"])) == pytest.approx(500 * MS, rel=0.01)


def test_limits_of_time_are_those_of_the_common_clock(folder: JobFolder) -> None:
    trial = aligned(Trial(folder))
    start, end = START + 10_000 * MS, START + 11_000 * MS
    table = trial.table("spans", start_ns=start, end_ns=end)
    assert {node: int((table["node"] == node).sum()) for node in AHEAD} == dict.fromkeys(AHEAD, 10)
    assert (np.diff(table["time"]) >= 0).all()
    query = f"SELECT node, count(*) AS n FROM spans WHERE time >= {start} AND time < {end} GROUP BY node"
    counted = trial.sql(query, start_ns=start, end_ns=end)
    assert sorted(counted["n"].tolist()) == [10, 10, 10]


def test_the_timeline_shows_collectives_one_below_the_other(folder: JobFolder) -> None:
    timeline = Timeline(aligned(Trial(folder)))
    assert timeline.start_ns == pytest.approx(START + 80 * MS, abs=2 * MS)
    assert timeline.end_ns == pytest.approx(START + STEPS * 100 * MS, abs=2 * MS)


def test_a_correction_moves_exactly_in_whole_nanoseconds() -> None:
    clock = ClockCorrection(3, 1e-6, START)
    time = START + 5_000_000_123
    rows = duckdb.connect().execute(f"SELECT {clock.sql(f'{time}::BIGINT')}").fetchall()
    assert rows == [(time - 3 - 5000,)]
