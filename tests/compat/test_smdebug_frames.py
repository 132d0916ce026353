"""smdebug's frames and what is computed of them, over a folder whose numbers are known and over a job."""

from __future__ import annotations

import pytest
from tests.compat import profiler_output as made
from tests.evaluation.jobs import finished
from tests.generated.story import story

from holter.compat.smdebug.profiler import recorded
from holter.compat.smdebug.profiler.analysis.utils import profiler_data_to_pandas
from holter.compat.smdebug.profiler.analysis.utils.pandas_data_analysis import (
    PandasFrameAnalysis,
    Resource,
    StatsBy,
)
from holter.compat.smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
from holter.compat.smdebug.profiler.analysis.utils.pt_dataloader_analysis import PT_dataloader_analysis

concat = pytest.importorskip("pandas", reason="frames need pandas").concat
assert_frame_equal = pytest.importorskip("pandas.testing").assert_frame_equal


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    return PandasFrame(str(made.write(tmp_path_factory.mktemp("job") / "profiler-output")))


@pytest.fixture(scope="module")
def analysis(frame):
    return PandasFrameAnalysis(frame.get_all_system_metrics(), frame.get_all_framework_metrics())


def test_columns(frame):
    system = frame.get_all_system_metrics()
    upstream = ["timestamp", "timestamp_us", "value", "system_metric", "dimension", "nodeID", "type"]
    assert list(system.columns) == [*upstream, "timestamp_us_since_epoch"]
    assert len(system) == 2 * 120 * 9
    first = system.iloc[0]
    assert (first["timestamp"], first["timestamp_us"]) == ("2023-11-14T22:14:00:250000", 250_000)
    framework = frame.get_all_framework_metrics()
    upstream = ["start_time", "end_time", "start_time_us", "end_time_us", "tid", "pid", "framework_metric"]
    upstream += ["step", "bytes", "process", "nodeID"]
    assert list(framework.columns)[:11] == upstream
    assert set(framework[framework["process"] == "cpu_functions"]["framework_metric"]) == {"conv1"}
    loader = frame.get_all_dataloader_metrics()
    assert list(loader.columns)[:13] == [
        *("start_time", "end_time", "start_time_us", "end_time_us", "duration_us", "pid", "framework_metric"),
        *("step", "worker_id", "num_workers", "pin_memory", "process", "node_id"),
    ]
    assert len(loader) == made.STEPS + 2


def test_selection(frame):
    assert set(frame.get_all_system_metrics(["IOPS"])["system_metric"]) == {"IOPS"}
    assert len(frame.get_all_framework_metrics(["Net"])) == 2 * made.STEPS
    assert len(frame.get_all_framework_metrics(["Forward"])) == made.STEPS
    begin, end = made.BEGIN + made.us(20), made.BEGIN + made.us(22)
    system, framework = frame.get_profiler_data_by_time(begin, end, selected_system_metrics=["cpu0"])
    assert len(system) == 2 * 2 * 4
    assert set(framework["step"]) == {-1, 5, 6}
    system, framework = frame.get_profiler_data_by_time(begin, end, get_framework_metrics=False)
    assert (len(framework), system.empty) == (0, False)
    assert len(frame.get_all_dataloader_metrics([".*GetNext"])) == made.STEPS


def test_by_step(frame):
    system, framework = frame.get_profiler_data_by_step(2, 3)
    assert set(framework["step"]) == {2, 3}
    assert len(framework) == 2 * 4
    # From the wait for the batch of step 2, at 13.7 s, to the end of step 3, at 17.5 s.
    assert len(system[system["system_metric"] == "IOPS"]) == 2 * 8
    system, framework = frame.get_profiler_data_by_step(50, 60)
    assert system.empty
    assert framework.empty


def test_what_was_found_before_is_kept_when_asked(tmp_path):
    frame = PandasFrame(str(made.write(tmp_path / "p")))
    first = (made.BEGIN, made.BEGIN + made.us(5))
    both = frame.get_profiler_data_by_time(*first, cache_metrics=True)[0]
    again = frame.get_profiler_data_by_time(*first, cache_metrics=True)[0]
    assert len(both) == len(again)
    more = frame.get_profiler_data_by_time(first[1], first[1] + made.us(5), cache_metrics=True)[0]
    assert len(more) > len(both)


def test_pieces_make_the_whole_and_what_would_not_fit_is_refused(frame, tmp_path, monkeypatch):
    folder = finished(story("before", ranks=1, cores=4, steps=60, samples=400), tmp_path)
    ours = PandasFrame(folder.url)
    frames = [ours.get_all_system_metrics(), ours.get_all_framework_metrics()]
    moments = [frames[1]["start_time"][100], frames[1]["start_time"][200]]
    ran = ours.get_framework_metrics_by_timesteps(moments)
    steps = ours.get_profiler_data_by_step(1010, 1020)
    monkeypatch.setattr(recorded, "PIECE", 500)
    pieces = list(ours.system_metrics_in_pieces())
    assert 3 < len(pieces) < 20
    assert all(len(piece) < 1000 for piece in pieces)
    assert_frame_equal(concat(pieces, ignore_index=True), frames[0])
    assert_frame_equal(concat(list(ours.framework_metrics_in_pieces()), ignore_index=True), frames[1])
    assert ours.get_framework_metrics_by_timesteps(moments) == ran
    for found, before in zip(ours.get_profiler_data_by_step(1010, 1020), steps, strict=True):
        assert_frame_equal(found, before)
    some = concat(list(ours.system_metrics_in_pieces(selected_system_metrics=["gpu0", "IOPS"])))
    assert len(some) == frames[0]["system_metric"].isin(["gpu0", "IOPS"]).sum() > 0
    theirs = concat(list(frame.system_metrics_in_pieces()), ignore_index=True)
    assert len(theirs) == len(frame.get_all_system_metrics())
    monkeypatch.setattr(profiler_data_to_pandas, "_COPIES", 10**12)
    with pytest.raises(MemoryError, match="name metrics, ask for a stretch of time"):
        ours.get_all_system_metrics()


def test_what_ran_at_moments_and_in_stretches(frame):
    at = "2023-11-14T22:14:10:200000"
    phases, names, steps = frame.get_framework_metrics_by_timesteps([at, at])
    assert steps == {"Step:ModeKeys.TRAIN": 2 * 1_500_000}
    assert names == {"DataLoaderWorker": 60_000_000, "Net": 1_000_000, "aten::conv2d": 400_000}
    assert phases["DataLoaderWorker"] == 1.0
    assert phases["Forward"] == pytest.approx(0.5 / 30)
    chosen = ["Forward", "Backward(post-forward)"]
    by_phase, by_name = frame.get_framework_metrics_by_begin_and_end_timesteps(
        ["2023-11-14T22:14:10:000000"], ["2023-11-14T22:14:12:100000"], chosen
    )
    assert by_phase == {"Forward": 1.0, "Backward(post-forward)": pytest.approx(0.75)}
    assert by_name == {"Net": 1.0}
    assert frame.convert_datetime_to_timestamp(at) == made.BEGIN + made.us(10.2)
    with pytest.raises(ValueError, match="is no time"):
        frame.convert_datetime_to_timestamp("yesterday")


def test_job_statistics(analysis):
    told = analysis.get_job_statistics()
    assert told["training_loop_start"] == made.us(10)
    assert told["training_loop_end"] == made.us(29.5)
    assert told["initialization"] == made.us(10) - 250_000
    total = sum(told[f"{part}_%"] for part in ("initialization", "training_loop", "finalization"))
    assert total == pytest.approx(100)
    assert "training_loop_duration" in str(told)


def test_step_statistics(analysis):
    found = analysis.get_step_statistics().set_index("training_phase")
    assert found.loc["Step:ModeKeys.TRAIN", "duration_mean_us"] == 1_500_000
    assert found.loc["Step:ModeKeys.EVAL", "duration_p99_us"] == 1_000_000
    by_process = analysis.get_step_statistics(StatsBy.PROCESS).set_index("process")
    assert by_process.loc["DataLoaderIter", "duration_max_us"] == 1_500_000
    assert by_process.loc["DataLoaderIter", "duration_p50_us"] == 300_000
    assert "conv1" in set(analysis.get_step_statistics(StatsBy.FRAMEWORK_METRICS)["framework_metric"])
    assert analysis.get_step_statistics("process") is None


def test_utilization(analysis):
    found = analysis.get_utilization_stats()
    assert list(dict.fromkeys(found["Resource"])) == ["cpu", "gpu", "memory", "i/o", "network"]
    rows = found.set_index(["nodeID", "dimension"])
    assert rows.loc[("algo-1", "CPUUtilization"), "utilization_mean"] == 55
    assert rows.loc[("algo-1", "I/OWaitPercentage"), "utilization_max"] == 4
    assert rows.loc[("algo-1", "GPUUtilization"), "utilization_mean"] == pytest.approx(65)
    assert rows.loc[("algo-2", "GPUUtilization"), "utilization_p95"] == 50
    assert analysis.get_utilization_stats("cpu") is None
    by_phase = analysis.get_utilization_stats(Resource.GPU, by=StatsBy.TRAINING_PHASE)
    assert set(by_phase["Resource"]) == {"gpu"}
    rows = by_phase.set_index(["Training_phase", "nodeID", "dimension"])["utilization_mean"]
    assert rows["Before Step:ModeKeys.TRAIN", "algo-1", "GPUUtilization"] == 5
    assert rows["After Step:ModeKeys.EVAL", "algo-1", "GPUUtilization"] == 95


def test_device_usage(analysis):
    found = analysis.get_device_usage_stats().set_index(["type", "nodeID"])
    gpu = found.loc[("gpu", "algo-1")]
    assert (gpu[(90, 100)], gpu[(10, 90)], gpu[(0, 10)]) == (80, 0, 40)
    assert found.loc[("cpu", "algo-2")].tolist() == [120, 120, 0]
    for wrong in ([], (1, 2), [(1,)]):
        assert analysis.get_device_usage_stats(utilization_ranges=wrong).empty
    assert analysis.get_device_usage_stats(device="gpu").empty


def test_training_phase_intervals(analysis):
    both = analysis.get_training_phase_intervals()
    assert both["phase"].tolist() == [
        "Before Step:ModeKeys.TRAIN",
        "Step:ModeKeys.TRAIN",
        "Between Step:ModeKeys.EVAL and Step:ModeKeys.TRAIN",
        "Step:ModeKeys.EVAL",
        "After Step:ModeKeys.EVAL",
    ]
    train = both.iloc[1]
    assert (train["start_time_us"], train["end_time_us"]) == (made.us(10), made.us(29.5))
    one = analysis.get_training_phase_intervals("Step:ModeKeys.TRAIN")
    assert (one["phase"] == "Step:ModeKeys.TRAIN").sum() == made.STEPS
    assert len(one) == made.STEPS + (made.STEPS - 1) + 2
    assert analysis.get_training_phase_intervals("Step:ModeKeys.PREDICT") is None
    assert analysis.get_training_phase_intervals(("Step:ModeKeys.TRAIN",)) is None


def test_frames_are_not_changed(frame):
    framework = frame.get_all_framework_metrics()
    before = framework.copy()
    found = PandasFrameAnalysis(frame.get_all_system_metrics(), framework).framework_df
    assert framework.equals(before)
    operators = found[found["process"] == "cpu_functions"]
    assert operators["step"].tolist() == list(range(made.STEPS))
    assert set(found[found["process"] == "DataLoaderWorker"]["step"]) == {-1}


def test_data_loaders(frame, capsys):
    analysis = PT_dataloader_analysis(frame)
    slow = analysis.analyze_dataloader_getnext()
    assert slow["duration_us"].tolist() == [1_500_000]
    assert "10 GetNext calls: median 300000 µs, longest 1500000 µs" in capsys.readouterr().out
    assert analysis.analyze_dataloaderIter_initialization() is None
    assert "pin_memory False, num_workers 4" in capsys.readouterr().out
    assert analysis.analyze_dataloaderWorkers() is None
    assert "1 workers: median 30000000 µs" in capsys.readouterr().out
    assert analysis.analyze_batchtime() is None, "no batch took twice the median"
    assert "9 batches, median 2 s each" in capsys.readouterr().out
    assert "<svg" in analysis.plot_the_window(made.BEGIN, made.BEGIN + made.us(30)).to_html()


def test_without_events_and_without_steps(tmp_path, capsys):
    folder = made.write(tmp_path / "p")
    for path in (folder / "framework").rglob("*.json"):
        path.unlink()
    frame = PandasFrame(str(folder))
    analysis = PandasFrameAnalysis(frame.get_all_system_metrics(), frame.get_all_framework_metrics())
    told = analysis.get_job_statistics()
    assert told["job_duration"] > 0
    assert told["training_loop_start"] is None
    assert analysis.get_step_statistics().empty
    assert analysis.get_training_phase_intervals() is None
    assert PT_dataloader_analysis(frame).analyze_dataloader_getnext() is None
    assert "not present" in capsys.readouterr().out


def test_over_a_job_of_holters(tmp_path):
    job = finished(story("before", ranks=2, cores=4, steps=40, samples=200), tmp_path)
    frame = PandasFrame(job.url)
    analysis = PandasFrameAnalysis(frame.get_all_system_metrics(), frame.get_all_framework_metrics())
    steps = analysis.get_step_statistics().set_index("training_phase")
    assert steps.loc["Step:ModeKeys.TRAIN", "duration_mean_us"] == pytest.approx(1_000_000, rel=0.02)
    gpu = analysis.get_utilization_stats(Resource.GPU).set_index("dimension")
    assert gpu.loc["GPUUtilization", "utilization_mean"] == pytest.approx(40, abs=2)
    by_process = analysis.get_step_statistics(StatsBy.PROCESS).set_index("process")
    assert by_process.loc["DataLoaderIter", "duration_mean_us"] == pytest.approx(600_000, rel=0.02)
