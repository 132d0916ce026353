"""SageMaker's configuration of its profiler becomes windows: classes, the file, and what is wrong with it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import pytest

from holter.agent.profilerconfig import WatchedFile, is_profiler_config, load, read
from holter.compat.sagemaker import (
    DataloaderProfilingConfig,
    DetailedProfilingConfig,
    FrameworkProfile,
    HorovodProfilingConfig,
    Profiler,
    ProfilerConfig,
    PythonProfiler,
    PythonProfilingConfig,
    cProfileTimer,
)
from holter.schema.windows import Request


def asked(profile: FrameworkProfile) -> list[dict]:
    # Through JSON, as it travels.
    document = json.loads(json.dumps(ProfilerConfig(framework_profile_params=profile).serialize()))
    return [
        {key: value for key, value in asdict(window).items() if value not in (None, {})}
        for window in read(document).windows
    ]


def category(name: str, value: object):
    return read({"ProfilingParameters": {name: value}})


def test_the_seed_configuration():
    config = ProfilerConfig(
        system_monitor_interval_millis=500,
        framework_profile_params=FrameworkProfile(start_step=1000, num_steps=500),
    )
    assert read(config.serialize()).interval_ms == 500
    assert [(window.profiler, window.start_step, window.steps) for window in config.windows()] == [
        ("operators", 1000, 500),
        ("python", 1000, 500),
        ("dataloader", 1000, 500),
    ]
    assert config.windows()[1].parameters == {"profiler": "cprofile", "timer": "total_time"}


def test_presets_never_share_a_step():
    windows = asked(FrameworkProfile())
    assert windows[1]["parameters"]["timer"] == "default"
    steps = [step for one in windows for step in range(one["start_step"], one["start_step"] + one["steps"])]
    assert sorted(steps) == [5, 7, 9, 10, 11, 13, 15]


def test_categories_win_over_the_range_beside_them():
    with pytest.warns(UserWarning, match="no effect"):
        profile = FrameworkProfile(
            detailed_profiling_config=DetailedProfilingConfig(start_step=3), num_steps=9
        )
    assert asked(profile) == [{"profiler": "operators", "start_step": 3, "steps": 1}]


def test_a_category_takes_its_preset_a_range_or_a_time():
    assert (DetailedProfilingConfig().start_step, DetailedProfilingConfig().num_steps) == (5, 1)
    assert DataloaderProfilingConfig(start_step=70, num_steps=2, profile_default_steps=True).start_step == 7
    only_count = asked(FrameworkProfile(detailed_profiling_config=DetailedProfilingConfig(num_steps=2)))
    assert only_count == [{"profiler": "operators", "steps": 2}]  # from now on
    timed = PythonProfilingConfig(
        start_unix_time=1_700_000_100,
        duration=30,
        python_profiler=PythonProfiler.PYINSTRUMENT,
        cprofile_timer=cProfileTimer.CPU_TIME,
    )
    assert asked(FrameworkProfile(python_profiling_config=timed)) == [
        {
            "profiler": "python",
            "start_ns": 1_700_000_100 * 10**9,
            "duration_ns": 30 * 10**9,
            "parameters": {"profiler": "pyinstrument"},
        }
    ]
    loading = DataloaderProfilingConfig(start_step=0, metrics_regex=".*GetNext")
    assert asked(FrameworkProfile(dataloader_profiling_config=loading))[0]["parameters"] == {
        "names": ".*GetNext"
    }


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: DetailedProfilingConfig(start_step="5"), TypeError, "start_step"),
        (lambda: DetailedProfilingConfig(start_step=-1), ValueError, "start_step -1"),
        (lambda: DetailedProfilingConfig(num_steps=0), ValueError, "num_steps 0"),
        (lambda: DetailedProfilingConfig(duration=0), ValueError, "duration"),
        (lambda: DetailedProfilingConfig(num_steps=True), TypeError, "num_steps"),
        (lambda: HorovodProfilingConfig(start_step=1, duration=2), ValueError, "two ranges"),
        (lambda: HorovodProfilingConfig(duration=2, profile_default_steps=True), ValueError, "two ranges"),
        (lambda: FrameworkProfile(start_step=1, start_unix_time=2), ValueError, "two ranges"),
        (lambda: FrameworkProfile(file_max_size=0), ValueError, "file_max_size"),
        (lambda: FrameworkProfile(detailed_profiling_config=3), TypeError, "DetailedProfilingConfig"),
        (lambda: DataloaderProfilingConfig(metrics_regex="*"), ValueError, "metrics_regex"),
        (lambda: PythonProfilingConfig(python_profiler="cprofile "), TypeError, "CPROFILE, PYINSTRUMENT"),
        (lambda: ProfilerConfig(system_monitor_interval_millis=300), ValueError, "100, 200, 500"),
        (
            lambda: ProfilerConfig(framework_profile_params=FrameworkProfile(), profile_params=Profiler()),
            ValueError,
            "not both",
        ),
    ],
)
def test_wrong_values_are_named_at_once(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_a_disabled_config_says_just_that():
    document = ProfilerConfig(disable_profiler=True, framework_profile_params=FrameworkProfile()).serialize()
    assert document == {"DisableProfiler": True}
    assert read(document).disabled
    assert not read(document).windows


def test_the_low_level_profiler_travels_as_texts():
    assert ProfilerConfig(profiler_params=Profiler()).serialize()["ProfilingParameters"] == {
        "CPUProfilingDuration": "3600",
        "SMPFileRotationSecs": "600",
    }


def test_keys_in_any_case_numbers_as_texts_values_untouched():
    found = read(
        {
            "disableprofiler": "False",
            "PROFILINGINTERVALINMILLISECONDS": "1000",
            "profilingParameters": {
                "LOCALPATH": "/Opt/X",
                "rotatemaxfilesizeinbytes": "None",
                "detailedprofilingconfig": "{'startstep': '20', 'NUMSTEPS': 2}",
                "SMDataparallelProfilingConfig": {"StartStep": 3, "NumSteps": 2},
                "DataloaderProfilingConfig": '{"StartStep": 23, "MetricsRegex": ".*GetNext"}',
                "PythonProfilingConfig": '{"StartTimeInSecSinceEpoch": "1700000100.5", "Duration": "0.5",'
                ' "profilername": "cProfile", "CPROFILETIMER": "Off_CPU_Time"}',
            },
        }
    )
    assert found.problems == ()
    assert found.interval_ms == 1000
    assert found.windows == (
        Request("operators", start_step=20, steps=2),
        Request(
            "python",
            start_ns=1700000100_500_000_000,
            duration_ns=500_000_000,
            parameters={"profiler": "cprofile", "timer": "off_cpu_time"},
        ),
        Request("operators", start_step=3, steps=2),
        Request("dataloader", start_step=23, parameters={"names": ".*GetNext"}),
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DetailedProfilingConfig", '{"StartStep": 3, "NumSteps": 2, "Duration": 5}', "give one of both"),
        ("DetailedProfilingConfig", '{"StartStep": "soon"}', "StartStep 'soon' is no whole number"),
        ("DetailedProfilingConfig", '{"StartStep": 2.5}', "no whole number"),
        ("DetailedProfilingConfig", '{"StartStep": -1}', "start_step -1"),
        ("DetailedProfilingConfig", '{"NumSteps": 0}', "steps 0"),
        ("DetailedProfilingConfig", '{"DurationInSeconds": "1e999"}', "no number"),
        ("DetailedProfilingConfig", '{"StartStep": true}', "no whole number"),
        ("DetailedProfilingConfig", "start_step", "is no dictionary"),
        ("DetailedProfilingConfig", "{'StartStep': os.getpid()}", "is no dictionary"),
        ("DetailedProfilingConfig", "(" * 4000, "is no dictionary"),
        ("DetailedProfilingConfig", "{" + " " * 5000 + "}", "is no dictionary"),
        ("DataloaderProfilingConfig", '{"StartStep": 3, "MetricsRegex": "*"}', "no regular expression"),
        ("PythonProfilingConfig", '{"StartStep": 3, "ProfilerName": "cprofil"}', "did you mean 'cprofile'"),
        ("PythonProfilingConfig", '{"StartStep": 3, "cProfileTimer": "wall"}', "valid: total_time, cpu_time"),
    ],
)
def test_a_bad_category_is_off_and_the_others_are_not(name, value, said):
    found = read({"ProfilingParameters": {name: value, "HorovodProfilingConfig": {"StartStep": 1}}})
    assert [window.start_step for window in found.windows] == [1]
    assert len(found.problems) == 1
    assert said in found.problems[0]
    assert name in found.problems[0]


def test_nothing_in_a_category_is_evaluated(tmp_path):
    left = tmp_path / "left"
    found = category("PythonProfilingConfig", f"{{'StartStep': open({str(left)!r}, 'w')}}")
    assert found.problems
    assert not left.exists()


def test_a_category_without_a_range_never_opens():
    found = category("PythonProfilingConfig", '{"ProfilerName": "cprofile", "cProfileTimer": "cpu_time"}')
    assert (found.windows, found.problems) == ((), ())
    assert "never opens" in found.notices[0]
    for empty in ({}, "", None):
        assert category("DetailedProfilingConfig", empty) == read({})


def test_unknown_entries_are_told_of_with_the_nearest_name():
    found = read({"ProfilingParameter": {}, "ProfilingParameters": {"DetailedProfilngConfig": "{}"}})
    assert "did you mean ProfilingParameters?" in found.notices[0]
    assert "did you mean DetailedProfilingConfig?" in found.notices[1]


def test_a_file_that_cannot_be_read_asks_for_nothing(tmp_path):
    for name, text, said in (
        ("gone.json", None, os.strerror(2)),
        ("text.json", b"{", "Expecting"),
        ("deep.json", b"[" * 100_000, "recursion"),
        ("list.json", b"[]", "not a JSON object"),
        ("bytes.json", b"\xff", "decode"),
        ("long.json", b" " * 2_000_000, "bytes"),
    ):
        if text is not None:
            (tmp_path / name).write_bytes(text)
        found = load(tmp_path / name)
        assert not found.windows
        assert said in found.problems[0]


def test_a_hooks_configuration_is_another_thing():
    assert not is_profiler_config({"S3OutputPath": "s3://b/p", "HookParameters": {}})
    assert is_profiler_config({"profilingparameters": {}})


def test_a_file_that_changes_is_read_once_and_only_if_it_says_something_else(tmp_path):
    path = tmp_path / "profilerconfig.json"

    def write(start, more=""):
        entries = {"ProfilingParameters": {"DetailedProfilingConfig": {"StartStep": start}}}
        path.write_text(json.dumps(entries) + more)

    watched = WatchedFile(str(path))
    assert watched.changed() is None  # it is not there
    write(5)
    assert watched.changed().windows == (Request("operators", start_step=5),)
    assert watched.changed() is None
    write(5, "  ")
    assert watched.changed() is None  # the same in other words
    write(500)
    assert watched.changed().windows[0].start_step == 500
    path.write_text("{")
    assert watched.changed().problems
    path.unlink()
    assert watched.changed().windows == ()
    assert watched.changed() is None
    assert WatchedFile(None).changed() is None
