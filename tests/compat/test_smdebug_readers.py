"""smdebug's readers: the counts of its own fixtures, a folder made here, and a job of holter's."""

from __future__ import annotations

import json

import pytest
from tests.compat import profiler_output as made
from tests.evaluation.jobs import finished
from tests.generated.story import story

from holter.compat.smdebug.exceptions import TrialNotFound
from holter.compat.smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader
from holter.compat.smdebug.profiler.analysis.utils.merge_timelines import MergedTimeline
from holter.compat.smdebug.profiler.system_metrics_reader import (
    LocalSystemMetricsReader,
    S3SystemMetricsReader,
)
from holter.compat.smdebug.profiler.utils import TimeUnits
from holter.store.urls import place


def test_the_counts_of_sagemakers_own_fixtures(data):
    system = LocalSystemMetricsReader(str(data / "sagemaker/test_traces"))
    assert len(system.get_events(0)) == 78
    assert len(system.get_events(0, event_type="cpu")) == 68
    assert len(system.get_events(0, 1591167699, TimeUnits.SECONDS)) == 10
    assert len(system.get_events(1591748165, 1600000000, unit=TimeUnits.SECONDS)) == 32
    python = LocalAlgorithmMetricsReader(str(data / "sagemaker/test_traces"))
    assert len(python.get_events(1589930980, 1589930995, unit=TimeUnits.SECONDS)) == 4
    model = LocalAlgorithmMetricsReader(str(data / "sagemaker/model_timeline_traces"))
    assert len(model.get_events(1590461127873222, 1590461139949971)) == 54
    horovod = LocalAlgorithmMetricsReader(str(data / "sagemaker/horovod_timeline_traces"))
    assert len(horovod.get_events(1593673051472800, 1593673051473100)) == 15
    assert {event.file_type for event in horovod.get_events(0)} == {"HorovodMetrics"}
    tensorflow = LocalAlgorithmMetricsReader(str(data / "sagemaker/tfprofiler_timeline_traces"))
    assert len(tensorflow.get_events(0)) == 798


def test_the_counts_of_a_file_that_is_made_here(tmp_path):
    """Of its 49 / 39 the specification gives begin and end; a file like it has the other numbers by chance.

    smdebug's own one (`tests/profiler/resources/1589314018481947000_1234-testhost_model_timeline.json` of its
    repository) is not among the files that tests are given; read by hand it gives the same counts and times.
    """
    first, until, last = 1589314018458743, 1589314018470000, 1589314018481947
    begins = [first, *range(first + 100, first + 3800, 100), until, *range(until + 50, until + 550, 50)]
    events = [{"ph": "X", "name": "dataset::GetNext", "ts": at - first, "pid": 1, "dur": 20} for at in begins]
    events[17]["dur"] = last - begins[17]
    heads = [
        ("process_name", 0, {"start_time_since_epoch_in_micros": first}),
        ("process_sort_index", 0, {"sort_index": 0}),
        ("process_name", 1, {"name": "DataIterator"}),
        ("process_sort_index", 1, {"sort_index": 1}),
    ]
    lines = [{"name": name, "ph": "M", "pid": pid, "args": args} for name, pid, args in heads] + events
    file = tmp_path / f"framework/pevents/2020051220/{last}000_1234-testhost_model_timeline.json"
    file.parent.mkdir(parents=True)
    file.write_text("[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n")
    reader = LocalAlgorithmMetricsReader(str(tmp_path))
    found = reader.get_events(0)
    assert len(found) == 49
    assert (min(e.start_time for e in found), max(e.end_time for e in found)) == (first, last)
    assert len(reader.get_events(0, 1589314018.47, TimeUnits.SECONDS)) == 39


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made.write(tmp_path_factory.mktemp("job") / "profiler-output")


def test_readings(folder):
    reader = LocalSystemMetricsReader(str(folder))
    found = reader.get_events(0)
    assert len(found) == 2 * 120 * 9
    assert reader.skipped == {"a line without a reading": 2}
    first = found[0]
    assert (first.type, first.name, first.dimension, first.value) == ("cpu", "cpu0", "CPUUtilization", 95.0)
    assert first.timestamp == made.BEGIN_S + 0.25
    assert reader.get_timestamp_of_first_available_file() == made.BEGIN
    at = made.BEGIN_S + 30.25
    assert len(reader.get_events(at, at, TimeUnits.SECONDS)) == 2, "both ends belong to a range"
    at = (made.BEGIN + made.us(30.25)) * 1000
    assert len(reader.get_events(at, at, TimeUnits.NANOSECONDS)) == 2
    assert reader.skipped == {"a line without a reading": 2}, "counted once, however often it is read"


def test_events(folder):
    reader = LocalAlgorithmMetricsReader(str(folder))
    events = reader.get_events(0)
    assert len(events) == len(made.events())
    forward = [event for event in events if event.event_phase == "Forward"]
    assert len(forward) == made.STEPS
    assert (forward[0].event_name, forward[0].duration) == ("Net", 500_000)
    assert (forward[0].node_id, forward[0].event_args) == (made.WORKER, {"step_num": 0})
    assert forward[0].start_time == made.BEGIN + made.us(10)
    at = made.BEGIN + made.us(10.2)
    phases = {event.event_phase for event in reader.get_events(at, at)}
    assert phases == {"Step:ModeKeys.TRAIN", "Forward", "cpu_functions", "DataLoaderWorker"}
    assert reader.get_events(0, file_suffix_filter=["model_timeline.json"]) == []


def test_events_by_step(folder):
    reader = LocalAlgorithmMetricsReader(str(folder))
    steps = {e.event_args["step_num"] for e in reader.get_events_by_step(2, 4) if e.event_phase == "Forward"}
    assert steps == {2, 3}
    assert reader.get_events_by_step(2, 400) == []
    system = LocalSystemMetricsReader(str(folder))
    assert len(system.get_events_by_step(2, 3, event_type="memory")) == 2 * 4


def test_a_file_that_comes_late_is_found(folder, tmp_path):
    late = made.write(tmp_path / "profiler-output")
    other = late / f"system/incremental/{made.HOUR}/{made.BEGIN_S}.algo-2.json"
    text = other.read_text()
    other.unlink()
    reader = LocalSystemMetricsReader(str(late), use_in_memory_cache=True)
    assert len(reader.get_events(0)) == 120 * 9
    other.write_text(text)
    assert len(reader.get_events(0)) == 2 * 120 * 9


def test_an_object_store(folder):
    objects = place("memory://old-jobs/profiler-output")
    for path in folder.rglob("*.json"):
        objects.write(str(path.relative_to(folder)), path.read_bytes())
    reader = S3SystemMetricsReader(objects.url)
    assert len(reader.get_events(0)) == 2 * 120 * 9
    merged = MergedTimeline(objects.url).merge_timeline(made.BEGIN, made.BEGIN + made.us(60))
    assert merged.startswith("memory://old-jobs/profiler-output/")
    assert len(json.loads(objects.read(merged.rpartition("/")[2]))) > 2160


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    told = story("before", ranks=2, cores=4, steps=40, samples=200)
    return finished(told, tmp_path_factory.mktemp("store"))


def test_a_job_of_holters(job):
    system = LocalSystemMetricsReader(job.url)
    found = system.get_events(0)
    assert {(event.type, event.dimension) for event in found} == {
        ("cpu", "CPUUtilization"),
        ("cpu", "I/OWaitPercentage"),
        ("gpu", "GPUUtilization"),
        ("gpu", "GPUMemoryUtilization"),
        ("memory", ""),
    }
    assert len(found) == 200 * (4 * 2 + 2 * 2 + 1)
    events = LocalAlgorithmMetricsReader(job.url).get_events(0)
    steps = [event for event in events if event.event_phase == "Step:ModeKeys.TRAIN"]
    assert len(steps) == 2 * 40
    waits = [event for event in events if event.event_name == "_MultiProcessingDataLoaderIter::GetNext"]
    assert waits
    assert waits[0].event_args["num_workers"] == 4
    assert {event.node_id for event in steps} == {"node-0-0", "node-0-1"}
    lanes = {(event.phase_pid, event.event_phase) for event in events}
    assert len(lanes) == len({lane for lane, _ in lanes}) == len({phase for _, phase in lanes})
    no_steps = LocalAlgorithmMetricsReader(job.url).get_events(0, file_suffix_filter=["model_timeline.json"])
    assert no_steps == []


def test_a_folder_that_is_no_job_is_a_sentence(tmp_path):
    (tmp_path / "thing").mkdir()
    for reader in (LocalSystemMetricsReader, S3SystemMetricsReader, LocalAlgorithmMetricsReader):
        with pytest.raises(TrialNotFound, match="profiler-output"):
            reader(str(tmp_path / "thing"))


def test_only_system_metrics(tmp_path):
    folder = made.write(tmp_path / "p")
    for path in (folder / "framework").rglob("*.json"):
        path.unlink()
    assert LocalAlgorithmMetricsReader(str(folder)).get_events(0) == []
    assert LocalAlgorithmMetricsReader(str(folder)).get_timestamp_of_latest_available_file() == 0
