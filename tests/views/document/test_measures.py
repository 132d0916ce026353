"""Statistics of a job and of parts of it, as `holter.open` hands them out; and what other packages get."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tests.evaluation.jobs import begin, end, finished, write
from tests.generated.story import NODE, START_NS, story

import holter
from holter.views import tables

SECOND = 10**9


@pytest.fixture(scope="module")
def told():
    return story("before", ranks=2, cores=4, steps=100, samples=400)


@pytest.fixture(scope="module")
def job(tmp_path_factory, told):
    return holter.open(finished(told, tmp_path_factory.mktemp("store")).url)


def rows(found):
    return list(found.to_rows())


def test_parts(job, told):
    steps = job.part(steps=(1010, 1019)).steps
    assert set(steps.table["step"].tolist()) == set(range(1010, 1020))
    assert len(steps) == 20
    rank = job.part(ranks=[1])
    assert set(rank.spans.table["rank"].tolist()) == {1}
    assert len(rank.samples) == len(job.samples), "the machine has no rank"
    assert len(job.part(nodes=["other"]).samples) == 0
    early = job.part(end_ns=START_NS + 10 * SECOND)
    assert 0 < len(early.samples) < len(job.samples)
    assert len(early.part(start_ns=START_NS + 20 * SECOND).samples) == 0
    with pytest.raises(LookupError, match="recorded steps: 1000 to 1099"):
        job.part(steps=(1, 2))
    with pytest.raises(ValueError, match="not both"):
        job.part(steps=(1, 2), start_ns=0)
    with pytest.raises(KeyError, match="launches"):
        job.table("launch")
    assert len(job.table("launches")) == 0


def test_utilization(job):
    found = {(row["metric"], row["device"]): row for row in job.utilization()}
    assert found["gpu.util", ""]["p50"] == pytest.approx(41, abs=2)
    apart = {(row["metric"], row["device"]) for row in job.utilization(by_device=True)}
    assert {("gpu.util", "gpu0"), ("gpu.util", "gpu1")} <= apart
    phases = {row["phase"] for row in job.utilization(by_phase=True)}
    assert phases == {"Before train", "train", "After train"}


@pytest.mark.parametrize("by_device", [False, True])
def test_a_long_job_is_looked_at_in_ranges_or_by_the_clock_alike(job, monkeypatch, by_device):
    whole = rows(job.utilization(by_device=by_device))
    monkeypatch.setattr(tables, "MOST_ROWS", 3000)
    stretches = tables.Stretches.of(job.trial, START_NS, tables=("samples",))
    assert not stretches.whole
    ranges = rows(job.utilization(by_device=by_device))
    assert 100 < len(stretches.samples(job.trial)) < len(job.samples)
    monkeypatch.setattr(tables, "MOST_RANGES", 1)
    assert rows(job.utilization(by_device=by_device)) == ranges
    of_all = ("node", "metric", "device", "unit", "count", "min", "max")
    assert [[row[key] for key in of_all] for row in ranges] == [[row[key] for key in of_all] for row in whole]


def test_step_statistics(job):
    (row,) = job.step_statistics()
    assert (row["mode"], row["count"]) == ("train", 100)
    assert row["mean_ms"] == pytest.approx(1000, rel=0.02)
    by_phase = {row["phase"]: row for row in job.step_statistics("phase")}
    assert by_phase["forward"]["p50_ms"] == pytest.approx(120, rel=0.05)
    with pytest.raises(ValueError, match="mode, phase or name"):
        job.step_statistics("rank")


def test_device_usage(job):
    found = {row["device"]: row for row in job.device_usage()}
    assert found["gpu"]["node"] == NODE
    assert sum(found["gpu"][name] for name in ("90-100", "10-90", "0-10")) == 2 * 400
    assert found["gpu"]["10-90"] == 2 * 400
    with pytest.raises(ValueError, match="ends before"):
        job.device_usage([(10, 0)])


def test_phase_intervals(job, told):
    parts = rows(job.phase_intervals())
    assert [part["phase"] for part in parts] == ["Before train", *["train"] * 100, "After train"] or [
        part["phase"] for part in parts
    ] == ["Before train", *["train", "Between train and train"] * 99, "train", "After train"]
    assert parts[0]["start"] == told.manifest["start"]
    assert parts[-1]["end"] == told.manifest["end"]


def test_what_ran_then(job):
    steps = job.part(ranks=[0]).spans.select(phase="forward").table
    at = int(steps["time"][3]) + 1
    told = job.part(ranks=[0]).running_at([at])
    assert told["phases"] == {"forward": 1.0}
    assert list(told["modes"]) == ["train"]
    during = job.part(ranks=[0]).running_during([(at, at + SECOND)])
    assert during["phases"]["data_loading"] == 1.0
    assert job.running_at([]) == {"phases": {}, "names": {}, "modes": {}}


def test_bottlenecks(job, told):
    assert len(job.find_bottlenecks(gpu_below=0, sigmas=10)) == 0
    found = rows(job.find_bottlenecks(gpu_below=60, core_above=50, sigmas=10))
    assert {row["kind"] for row in found} == {"cpu"}
    assert found[0]["devices"] == "gpu0, gpu1, cpu0, cpu1, cpu2, cpu3"
    assert found[0]["phases"].startswith("data_loading 6")


def test_outliers(tmp_path, told):
    slow = told.spans.columns | {"duration": told.spans["duration"].copy()}
    last = np.flatnonzero((told.spans["phase"] == "step") & (told.spans["rank"] == 0))[-1]
    slow["duration"][last] *= 5
    folder = begin(told, tmp_path)
    write(folder, {"spans": type(told.spans)(slow)})
    end(folder, told)
    (row,) = holter.open(folder.url).find_bottlenecks(sigmas=5)
    assert (row["kind"], row["rank"]) == ("outlier", 0)
    assert row["end"] - row["begin"] == pytest.approx(5 * SECOND, rel=0.1)


def test_series(job):
    found = job.series("gpu.util", buckets=10)
    assert len(found) == 20
    assert set(found.table.columns) == {"node", "device", "time", "mean", "min", "max"}
    row = rows(found)[0]
    assert row["min"] <= row["mean"] <= row["max"]
    with pytest.raises(KeyError, match="no metric 'gpu'"):
        job.series("gpu")


def test_other_packages(job, monkeypatch):
    spans = job.spans.select("time", "phase", where="rank = 0")
    assert spans.to_arrow().num_rows == len(spans)
    pytest.importorskip("pandas", reason="the frame is of pandas")
    assert list(spans.to_pandas().columns) == ["time", "phase"]
    polars = pytest.importorskip("polars", reason="the frame is of polars")
    assert spans.to_polars().schema["phase"] == polars.String
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        spans.to_polars()


def test_a_job_without_anything_and_one_without_steps(tmp_path, told):
    empty = begin(told, tmp_path / "a")
    end(empty, told)
    machine = begin(told, tmp_path / "b")
    write(machine, {"samples": told.samples})
    end(machine, told)
    for folder in (empty, machine):
        job = holter.open(folder.url)
        assert rows(job.step_statistics()) == []
        assert rows(job.phase_intervals()) == []
        assert rows(job.find_bottlenecks()) == []
        with pytest.raises(LookupError, match="recorded steps: none"):
            job.part(steps=(0, 1))
    assert rows(holter.open(empty.url).utilization()) == []
    assert len(rows(holter.open(empty.url).series("gpu.util"))) == 0
    assert rows(holter.open(machine.url).utilization())
    assert rows(holter.open(machine.url).utilization(by_phase=True)) == []


def test_a_folder_that_is_no_job(tmp_path):
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing/notes.txt").write_text("hello")
    with pytest.raises(LookupError, match=r"without a job: job\.json is missing"):
        holter.open(str(tmp_path / "thing"))
    with pytest.raises(LookupError, match="thing"):
        holter.open(str(tmp_path / "thin"))


def test_a_notebook_shows_it(job):
    html = job.utilization()._repr_html_()
    assert "gpu.util" in html
    assert "rows" in html


def test_names_that_are_none_and_names_near_them(job):
    with pytest.raises(KeyError, match=r"did you mean 'gpu\.util'"):
        job.series("gpu.utl")
    with pytest.raises(KeyError, match="did you mean 'samples'"):
        job.table("sample")
    with pytest.raises(KeyError, match="did you mean 'breakdown_over_steps'"):
        job.figure("breakdown_over_step")


def test_a_column_of_one_text_is_one_object(job):
    node = job.samples.table["node"]
    assert node[0] is node[-1], "else it takes fifty bytes a row"


def test_a_comparison_says_what_it_lacks_for_epochs(job):
    lacking = job.compare(job, epochs=30)["changes"][0]["missing"]
    assert [line for line in lacking if "30 epochs" in line and "--epoch-steps" in line]
    assert job.compare(job, epochs=30, epoch_steps=10)["changes"][0]["missing"] == []
