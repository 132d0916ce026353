"""Stores of earlier releases stay readable: `data/VERSION.zip` is one of each release, and never changes."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from holter.store.compact import compact
from holter.store.job import find
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.document.description import describe

RELEASES = sorted((Path(__file__).parent / "data").glob("*.zip"))


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_a_store_of_an_earlier_release_is_read(release, tmp_path):
    with zipfile.ZipFile(release) as packed:
        packed.extractall(tmp_path)
    trial = Trial(find(str(tmp_path), "before"))
    rows = {table: trial.table(table).rows for table in ("spans", "samples", "scalars", "events")}
    assert rows == ROWS[release.stem]
    told = describe(trial)
    assert not told["skipped"]
    assert told["job"]["status"] == "Completed"
    assert told["ranks"] == [0, 1]
    assert told["steps"]["count"] == 80
    assert told["verdict"]["suspect"] == "data_pipeline"
    assert told["breakdown"]["data_loading"] == pytest.approx(60, abs=0.5)


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_rows_of_today_lie_beside_those_of_an_earlier_release(release, tmp_path):
    with zipfile.ZipFile(release) as packed:
        packed.extractall(tmp_path)
    folder = find(str(tmp_path), "before")
    before = Trial(folder).table("scalars")
    writer = Writer(folder, str(before["node"][0]))
    large = 15 * 10**12
    writer.append("scalars", {"time": [int(before["time"].max()) + 1], "step": [large], "value": [1.0]})
    writer.close()
    for _ in range(2):
        trial = Trial(folder)
        assert trial.table("scalars")["step"].tolist() == [*before["step"].tolist(), large]
        assert trial.sql("SELECT max(step) AS step FROM scalars")["step"].tolist() == [large]
        assert not trial.skipped
        compact(folder, min_files=2)


ROWS = {"0.1.0": {"spans": 2720, "samples": 1440, "scalars": 80, "events": 4}}
"""What lies in each."""
