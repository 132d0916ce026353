"""smdebug's charts, drawn without a server; merged timelines; jobs that are waited for."""

from __future__ import annotations

import json
import re

import pytest
from tests.compat import profiler_output as made
from tests.evaluation.jobs import begin, end, finished, write
from tests.generated.story import story

from holter.compat.smdebug.exceptions import NoMoreProfilerData, TrialNotFound
from holter.compat.smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader
from holter.compat.smdebug.profiler.analysis.notebook_utils.heatmap import Heatmap
from holter.compat.smdebug.profiler.analysis.notebook_utils.metrics_histogram import MetricsHistogram
from holter.compat.smdebug.profiler.analysis.notebook_utils.step_histogram import StepHistogram
from holter.compat.smdebug.profiler.analysis.notebook_utils.step_timeline_chart import StepTimelineChart
from holter.compat.smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts
from holter.compat.smdebug.profiler.analysis.notebook_utils.training_job import TrainingJob
from holter.compat.smdebug.profiler.analysis.utils.merge_timelines import MergedTimeline, MergeUnit
from holter.compat.smdebug.profiler.system_metrics_reader import LocalSystemMetricsReader


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made.write(tmp_path_factory.mktemp("job") / "profiler-output")


@pytest.fixture
def system(folder):
    return LocalSystemMetricsReader(str(folder))


@pytest.fixture
def events(folder):
    return LocalAlgorithmMetricsReader(str(folder))


def titled(figures):
    return {figure.title: figure for figure in figures}


def test_histograms_of_metrics(system):
    chart = MetricsHistogram(system)
    found = titled(chart.figures())
    gpu = found["GPUUtilization-nodeid:algo-1 gpu0"]
    (series,) = gpu.series
    assert (series.values[2], series.values[47], sum(series.values)) == (40, 80, 120)
    assert (gpu.x[0], gpu.x[-1], len(gpu.x)) == (0, 100, 51)
    total = found["CPUUtilization-nodeid:algo-1 total"].series[0].values
    assert total[27] == 120, "the mean of 95 and 15"
    merged = titled(chart.plot(select_dimensions=["GPUUtil"], show_workers=False).figures())
    assert sum(merged["GPUUtilization gpu0"].series[0].values) == 240
    assert chart._repr_html_().count("<svg") == 1
    chart.clear()
    assert "No reading" in chart.to_html()


def test_steps(events):
    found = titled(StepHistogram(events).figures())
    assert set(found) == {
        f"{phase}-nodeid:{made.WORKER}"
        for phase in ("Step:ModeKeys.TRAIN", "Step:ModeKeys.EVAL", "Forward", "Backward(post-forward)")
    }
    steps = found[f"Step:ModeKeys.TRAIN-nodeid:{made.WORKER}"]
    assert len(steps.series[0].values) == 50
    (chart,) = StepTimelineChart(events, width=3).figures()
    assert chart.x == [7, 8, 9]
    train = {one.name: one.values for one in chart.series}[f"Step:ModeKeys.TRAIN-nodeid:{made.WORKER}"]
    assert train == [1500.0] * 3
    assert "<svg" in StepTimelineChart(events).to_html()


def test_heatmap(system, events):
    (figure,) = Heatmap(system, events, select_dimensions=[".*"]).figures()
    rows = {series.name: series.values for series in figure.series}
    assert rows["GPUUtilization-nodeid:algo-2_gpu0"] == [50.0] * len(figure.x)
    assert rows["IOPS-nodeid:algo-1_IOPS"][0] == 100.0, "in percent of its own maximum"
    assert "percent of their own maximum" in figure.note
    assert "CPUUtilization-nodeid:algo-1_total" in rows
    (figure,) = Heatmap(system, select_metrics=["algo-2_gpu"]).figures()
    assert len(figure.series) == 2
    with pytest.raises(TypeError, match="system metrics"):
        Heatmap(events)


def test_timelines_and_what_ran_meanwhile(system, events, capsys):
    charts = TimelineCharts(system, events, select_dimensions=["GPUUtil", "IOPS"])
    found = titled(charts.figures())
    assert set(found) == {f"{one}-nodeid:algo-{n}" for one in ("GPUUtilization", "IOPS") for n in (1, 2)}
    (gpu,) = found["GPUUtilization-nodeid:algo-1"].series
    assert (gpu.values[0], gpu.values[-1]) == (5.0, 95.0)
    low, high = (int((charts.times - made.BEGIN < made.us(at)).sum()) for at in (10.1, 11.9))
    told = charts.find_time_annotations([low, high])
    assert told["Step:ModeKeys.TRAIN step 0"] == 1_500_000, "microseconds"
    assert "Net step 0: 1250000 µs" in capsys.readouterr().out
    drawn = charts.plot_detailed_profiler_data([low, high]).to_html()
    assert "aten::conv2d: 200000" in drawn
    assert "GetNext" in drawn
    with pytest.raises(ValueError, match="two positions"):
        charts.find_time_annotations([5, 2])
    with pytest.raises(ValueError, match="no regular expression"):
        TimelineCharts(system, select_events=["("]).figures()
    later = TimelineCharts(system, x=10).update_data(made.BEGIN + made.us(5))
    assert len(later.times) == 10


def test_a_merged_timeline(folder, tmp_path):
    merged = MergedTimeline(str(folder), output_directory=str(tmp_path / "out"))
    path = merged.merge_timeline(made.BEGIN, made.BEGIN + made.us(60))
    assert re.search(r"/\d+_algo-1-111_merged_timeline\.json$", path)
    told = json.loads((tmp_path / "out" / path.rpartition("/")[2]).read_text())
    slices = [event for event in told if event["ph"] == "X"]
    assert len(slices) == len(made.events())
    times = [event["ts"] for event in told if event["ph"] != "M"]
    assert times == sorted(times)
    names = {e["args"]["name"]: e["pid"] for e in told if e["name"] == "process_name"}
    assert names["Step:ModeKeys.TRAIN"] < 10_000 <= names["Forward"] < names["Backward(post-forward)"]
    marks = [event for event in told if event["name"] == "sys_metrics_bottlenecks" and event["ph"] == "i"]
    assert len(marks) == 120, "of both nodes together: one is always below 85 %"
    counters = [event for event in told if event["ph"] == "C"]
    assert len(counters) == 2 * 120 * 9
    few = merged.merge_timeline(2, 3, unit=MergeUnit.STEP, sys_metrics_filter=None)
    told = json.loads((tmp_path / "out" / few.rpartition("/")[2]).read_text())
    assert {event["ph"] for event in told} == {"M", "X"}
    low = merged.merge_timeline(made.BEGIN, made.BEGIN + made.us(60), sys_metrics_filter={"lowgpu": 10})
    told = json.loads((tmp_path / "out" / low.rpartition("/")[2]).read_text())
    assert sum(event["ph"] == "i" for event in told) == 40
    with pytest.raises(ValueError, match="no event tells"):
        merged.merge_timeline(2, 300, unit=MergeUnit.STEP)
    with pytest.raises(ValueError, match="valid: pythontimeline"):
        MergedTimeline(str(folder), file_suffix_filter=["other.json"])


def test_a_job_is_waited_for(tmp_path, capsys):
    told = story("before", ranks=1, cores=1, steps=10, samples=20)
    folder = begin(told, tmp_path)
    job = TrainingJob("before", "eu-west-1", store=str(tmp_path))
    assert job.get_systems_metrics_reader() is None
    with pytest.raises(TimeoutError, match="reading of the machine"):
        job.wait_for_sys_profiling_data_to_be_available(timeout_s=0.01)
    assert "InProgress" in capsys.readouterr().out
    write(folder, {"samples": told.samples})
    job.wait_for_sys_profiling_data_to_be_available()
    assert job.get_systems_metrics_reader().get_events(0)
    end(folder, told)
    with pytest.raises(NoMoreProfilerData, match="has ended without an event"):
        job.wait_for_framework_profiling_data_to_be_available()
    config, path = job.get_config_and_profiler_s3_output_path()
    assert (config["ProfilingIntervalInMilliseconds"], path) == (500, folder.url)
    with pytest.raises(TrialNotFound, match="near names"):
        TrainingJob("befor", store=str(tmp_path))


def test_a_folder_of_sagemakers_is_a_job_too(folder):
    job = TrainingJob(str(folder))
    job.wait_for_sys_profiling_data_to_be_available()
    job.wait_for_framework_profiling_data_to_be_available()
    assert len(job.get_framework_metrics_reader().get_events(0)) == len(made.events())
    assert job.describe_training_job() == {}


def test_charts_of_a_job_of_holters(tmp_path):
    job = finished(story("before", ranks=2, cores=2, steps=30, samples=80), tmp_path)
    system, events = LocalSystemMetricsReader(job.url), LocalAlgorithmMetricsReader(job.url)
    assert len(Heatmap(system).figures()[0].series) == 3 * (2 + 1)
    (chart,) = StepTimelineChart(events).figures()
    assert len(chart.series) == 2
    merged = MergedTimeline(job.url, output_directory=str(tmp_path / "merged"))
    assert merged.merge_timeline(0, 2**60).endswith("_merged_timeline.json")
