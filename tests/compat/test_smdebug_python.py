"""smdebug's analyses of Python profiles: seven segments of SageMaker's folders, and windows of a job."""

from __future__ import annotations

import marshal
import math

import pytest
from tests.compat import profiler_output as made
from tests.evaluation.jobs import begin, end, write
from tests.generated.story import START_NS, story

from holter.compat.smdebug.profiler.analysis.python_profile_analysis import (
    PyinstrumentAnalysis,
    cProfileAnalysis,
)
from holter.compat.smdebug.profiler.analysis.utils.python_profile_analysis_utils import Metrics
from holter.compat.smdebug.profiler.python_profile_utils import PythonProfileModes as Modes
from holter.compat.smdebug.profiler.python_profile_utils import StepPhase
from holter.importers.report import UnreadableError
from holter.importers.sagemaker import marshaled
from holter.schema.table import Table

pytest.importorskip("pandas", reason="frames need pandas")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(made.write_python(tmp_path_factory.mktemp("job") / "profiler-output"))


@pytest.fixture
def analysis(folder):
    return cProfileAnalysis(folder)


def called(stats):
    names = {one.function_name.partition("(")[2].rstrip(")") for one in stats.function_stats_list}
    return names & {name for _, _, name in made.SEGMENTS}


def test_segments_are_listed(folder, analysis):
    found = analysis.list_profile_stats()
    assert len(found) == 7
    assert found["start_step"].tolist() == [-1, 0, 0, 1, 1, 0, 0]
    assert found["end_step"].tolist()[-1] == math.inf
    assert found["framework"].tolist() == ["pytorch"] * 7
    assert found["start_mode"].iloc[0] is Modes.PRE_STEP_ZERO
    assert len(PyinstrumentAnalysis(folder).list_profile_stats()) == 14
    assert analysis.list_available_node_ids() == ["algo-1-111"]


def test_every_query_returns_its_own_functions(analysis):
    by_step = analysis.fetch_profile_stats_by_step
    assert called(by_step(0)) == {"forward_0"}
    assert called(by_step(0, 1)) == {"forward_0", "backward_0", "forward_1"}
    assert called(by_step(0, 1, start_phase=StepPhase.FORWARD_PASS_END)) == {"backward_0", "forward_1"}
    assert called(by_step(0, 1, end_phase=StepPhase.STEP_START)) == {"forward_0", "backward_0"}
    assert called(by_step(0, mode=Modes.EVAL)) == {"evaluate"}
    assert by_step(7) is None
    assert called(analysis.fetch_pre_step_zero_profile_stats()) == {"before_all"}
    assert called(analysis.fetch_post_hook_close_profile_stats()) == {"after_all"}
    assert called(analysis.fetch_profile_stats_between_modes(Modes.TRAIN, Modes.EVAL)) == {"train_to_eval"}
    at = made.BEGIN_S + 0.5
    assert called(analysis.fetch_profile_stats_by_time(at, at + 1)) == {"before_all", "forward_0"}
    assert analysis.fetch_profile_stats_by_time(at, at + 1, node_id="algo-2-1") is None
    phases = analysis.fetch_profile_stats_by_training_phase()
    assert called(phases[Modes.TRAIN, Modes.TRAIN]) == {"forward_0", "backward_0", "forward_1"}
    assert (Modes.EVAL, Modes.TRAIN) not in phases
    jobs = analysis.fetch_profile_stats_by_job_phase()
    assert called(jobs["initialization"]) == {"before_all"}
    assert called(jobs["finalization"]) == {"after_all"}
    assert len(called(jobs["training_loop"])) == 5


def test_statistics(analysis, capsys):
    stats = analysis.fetch_profile_stats_by_step(0, 1)
    stats.print_top_n_functions(Metrics.CUMULATIVE_TIME, n=2)
    assert "function calls" in capsys.readouterr().out
    with pytest.raises(TypeError, match="Metrics"):
        stats.print_top_n_functions("cumtime")
    frame = stats.get_function_stats()
    assert frame["total_calls"].dtype.kind == "i"
    assert set(frame["total_calls"]) >= {1}


def test_pyinstrument(folder):
    (found,) = PyinstrumentAnalysis(folder).fetch_profile_stats_by_step(0)
    assert found.json_stats["root_frame"]["function"] == "forward_0"
    assert found.html_file_path.endswith("python_stats.html")


def test_a_folder_of_segments_alone(folder):
    alone = cProfileAnalysis(folder + "/framework/pytorch/cprofile")
    assert len(alone.list_profile_stats()) == 7
    with pytest.raises(AssertionError, match="does not exist"):
        cProfileAnalysis(folder + "/nowhere")


def test_files_of_sagemaker(data):
    (path, *_) = sorted((data / "sagemaker/tfprofiler_timeline_traces").rglob("python_stats"))
    assert len(marshaled.statistics(path)) > 100


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xfb",
        b"r\xff\xff\xff\x7f",
        b"(\xff\xff\xff\x7f",
        b")\x01" * 1000,
        b"l\x00\x00\x00\x01" + bytes(100),
        marshal.dumps(compile("1", "x", "exec")),
        marshal.dumps({"a": 1}),
        marshal.dumps({("f", 1, "g"): (1, 1, 0.5, 0.5, {("f", 1, "g"): "no counts"})}),
        marshal.dumps([1, 2]),
    ],
)
def test_what_is_no_statistics_is_refused(tmp_path, content):
    path = tmp_path / "python_stats"
    path.write_bytes(content)
    with pytest.raises(UnreadableError):
        marshaled.statistics(path)


def test_windows_of_a_job(tmp_path):
    told = story("before", ranks=1, cores=1, steps=10, samples=20)
    folder = begin(told, tmp_path)
    common = {"time": START_NS, "duration": 5_000_000, "rank": 0, "mode": "train", "node": "node-0"}
    counts = {"calls": 2, "primitive_calls": 2, "total_time": 4_000_000, "self_time": 1_000_000}
    rows = [
        {
            **common,
            **counts,
            "step": step,
            "phase": phase,
            "timer": timer,
            "function": f"{phase} (t.py:{step})",
        }
        for step, timer in ((9, "total_time"), (10, "cpu_time"))
        for phase in ("data_loading", "forward", "backward")
    ]
    stacks = [{**common, "step": 9, "phase": "forward", "stack": "a (t.py:1);b (t.py:2)"}]
    stacks[0] |= {"samples": 3, "self_time": 3_000_000}
    tables = {"python_functions": rows, "python_stacks": stacks}
    write(folder, {name: Table.of(name, rows) for name, rows in tables.items()})
    end(folder, told)
    analysis = cProfileAnalysis(folder.url)
    assert len(analysis.list_profile_stats()) == 6
    stats = analysis.fetch_profile_stats_by_step(9)
    names = {one.function_name for one in stats.function_stats_list}
    assert names == {"t.py:9(data_loading)", "t.py:9(forward)", "t.py:9(backward)"}
    (forward,) = [one for one in stats.function_stats_list if "forward" in one.function_name]
    assert (forward.total_calls, forward.cumulative_time, forward.total_time) == (2, 0.004, 0.001)
    only = analysis.fetch_profile_stats_by_step(9, end_phase=StepPhase.FORWARD_PASS_END)
    assert len(only.function_stats_list) == 2
    with pytest.raises(ValueError, match="cpu_time, total_time"):
        analysis.fetch_profile_stats_by_step(9, 10)
    (seen,) = PyinstrumentAnalysis(folder.url).fetch_profile_stats_by_step(9)
    assert seen.json_stats["root_frame"]["children"]
