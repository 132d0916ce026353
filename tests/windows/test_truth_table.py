"""SageMaker's own truth table of windows, from the text of a category to the steps that are profiled.

The current step is 3 and the current time T, as there. Where the original takes 0 for "not given", 0 counts.
"""

from __future__ import annotations

import json
import time
from functools import partial

import pytest
import torch  # noqa: F401  windows of operators are refused in a process without it

from holter.agent.profilerconfig import load, read
from holter.schema import windows

NOW = 3
DETAILED, LOADER, PYTHON = "DetailedProfilingConfig", "DataloaderProfilingConfig", "PythonProfilingConfig"
PARALLEL = "SMDataparallelProfilingConfig"
KINDS = {DETAILED: "operators", LOADER: "dataloader", PYTHON: "python", PARALLEL: "operators"}
ERROR, PAST, NO_RANGE, NO_MATCH = "error", "past", "no range", "no match"


def opened(train, category: str, given: object, steps: int = 8, after=lambda: None):
    """Run steps from the current one on; return what was read, what ran, and what was refused."""
    settings = read({"ProfilingParameters": {category: given}})
    made = train(step=NOW - 1)
    if settings.windows:
        text = windows.ProfilingOrder(settings.windows).to_text()
        made.ask(*json.loads(text)["requests"])
    for _ in range(steps):
        made.steps(1)
        after()
    return settings, made


@pytest.mark.parametrize(
    ("category", "given", "expected"),
    [
        (DETAILED, {"StartStep": 3, "NumSteps": 2}, (3, 5)),
        (DETAILED, {"StartStep": 3}, (3, 4)),
        (DETAILED, {"NumSteps": 2}, (3, 5)),
        (DETAILED, {"StartStep": 1}, PAST),
        (DETAILED, {"StartStep": 0}, PAST),
        (LOADER, {"StartStep": 3, "MetricsRegex": ".*GetNext"}, (3, 4)),
        (LOADER, {"StartStep": 3, "MetricsRegex": "_multiprocessing"}, (3, 4)),
        (LOADER, {"StartStep": 3, "MetricsRegex": "GetNext"}, NO_MATCH),  # a prefix, as there
        (LOADER, {"StartStep": 3, "MetricsRegex": "Dataloader:Event2"}, NO_MATCH),
        (LOADER, {"StartStep": 3}, (3, 4)),
        (LOADER, {"StartStep": 3, "MetricsRegex": "*"}, ERROR),
        (PYTHON, {"StartStep": 3, "NumSteps": 2, "ProfilerName": "cprofile", "cProfileTimer": "off_cpu_time"},
         (3, 5)),
        (PYTHON, {"StartStep": 3, "NumSteps": 2}, (3, 5)),
        (PYTHON, {"StartStep": 3, "NumSteps": 2, "cProfileTimer": "cpu_time"}, (3, 5)),
        (PYTHON, {"ProfilerName": "cprofile", "cProfileTimer": "cpu_time"}, NO_RANGE),
        (PYTHON, {"StartStep": 3, "NumSteps": 2, "ProfilerName": "psychic"}, ERROR),
        (PYTHON, {"StartStep": 3, "NumSteps": 2, "cProfileTimer": "moon"}, ERROR),
        (PARALLEL, {"StartStep": 3, "NumSteps": 2}, (3, 5)),
        (PARALLEL, {"StartStep": 3}, (3, 4)),
        (PARALLEL, {"NumSteps": 2}, (3, 5)),
        (PARALLEL, {"StartStep": 5}, (5, 6)),
        (DETAILED, {}, NO_RANGE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("spelling", [dict, json.dumps, repr])
def test_steps(train, category, given, expected, spelling):
    settings, made = opened(train, category, spelling(given))
    if expected in (ERROR, NO_RANGE, NO_MATCH):
        assert settings.windows == ()
        assert made.ranges() == []
        assert (expected == NO_MATCH) == any("MetricsRegex" in one for one in settings.notices)
        assert len(settings.problems) == (expected == ERROR)
        assert all(category.lower() in one.lower() for one in settings.problems)
        return
    assert settings.problems == ()
    if expected == PAST:
        assert made.ranges() == []
        assert [one["refused"] for one in made.told()] == ["it is past"]
    else:
        assert made.ranges() == [(KINDS[category], *expected)]


@pytest.mark.parametrize(
    ("given", "parameters"),
    [
        ({"ProfilerName": "cprofile", "cProfileTimer": "off_cpu_time"},
         {"profiler": "cprofile", "timer": "off_cpu_time"}),
        ({}, {"profiler": "cprofile", "timer": "total_time"}),
        ({"cProfileTimer": "cpu_time"}, {"profiler": "cprofile", "timer": "cpu_time"}),
        ({"ProfilerName": "pyinstrument"}, {"profiler": "pyinstrument"}),
        ({"ProfilerName": "pyinstrument", "cProfileTimer": "cpu_time"}, {"profiler": "pyinstrument"}),
    ],
)  # fmt: skip
def test_which_python_profiler(given, parameters):
    settings = read({"ProfilingParameters": {PYTHON: {"StartStep": 3, "NumSteps": 2, **given}}})
    (request,) = settings.windows
    assert (request.start_step, request.steps, request.parameters) == (3, 2, parameters)


@pytest.mark.parametrize(
    ("start_s", "duration_s", "covered"),
    [
        (0, 0.2, 5),
        (0, None, 1),  # the first step seen from then on
        (None, 0.2, 5),
        (-1000, 500, 0),
    ],
)
@pytest.mark.parametrize("length", ["Duration", "DurationInSeconds"])
def test_times(train, hours, start_s, duration_s, covered, length):
    given = {}
    if start_s is not None:
        given["StartTimeInSecSinceEpoch"] = time.time() + start_s
    if duration_s is not None:
        given[length] = duration_s
    spend = partial(hours.spend, 0.04)
    settings, made = opened(train, DETAILED, json.dumps(given), steps=10, after=spend)
    assert settings.problems == ()
    assert made.ranges() == ([("operators", NOW, NOW + covered)] if covered else [])


def test_steps_and_times_together_are_an_error_that_names_the_category(train):
    given = {"StartStep": 3, "NumSteps": 2, "StartTimeInSecSinceEpoch": time.time(), "DurationInSeconds": 500}
    settings, made = opened(train, DETAILED, given)
    assert (settings.windows, made.told()) == ((), [])
    (problem,) = settings.problems
    assert problem.startswith("DetailedProfilingConfig is off")


GOOD = {"StartStep": 4, "NumSteps": 1}
OFF = ()


@pytest.mark.parametrize(
    ("text", "steps", "problems", "notices"),
    [
        (None, OFF, 1, 0),  # no such file
        ("{", OFF, 1, 0),
        ({"DisableProfiler": True, "ProfilingParameters": {DETAILED: GOOD}}, OFF, 0, 1),
        ({"DisableProfiler": False}, OFF, 0, 0),
        ({"ProfilingParameters": {}}, OFF, 0, 0),
        ({"ProfilingParameters": {"RotateMaxFileSizeInBytes": "None", DETAILED: GOOD}}, (4,), 0, 0),
        ({"ProfilingParameters": {DETAILED: "start_step", PARALLEL: GOOD}}, (4,), 1, 0),
        ({"ProfilingParameters": {DETAILED: "{'StartStep': }", PARALLEL: GOOD}}, (4,), 1, 0),
        ({"ProfilingParameters": {DETAILED: "{'StartStep': unknown}", PARALLEL: GOOD}}, (4,), 1, 0),
        ({"ProfilingParameters": {DETAILED: {"StartStep": "soon"}, PARALLEL: GOOD}}, (4,), 1, 0),
        ({"ProfilingParameters": {DETAILED: {**GOOD, "Duration": 5}, PARALLEL: GOOD}}, (4,), 1, 0),
        ({"ProfilingParameters": {LOADER: {**GOOD, "MetricsRegex": "*"}, PARALLEL: GOOD}}, (4,), 1, 0),
        ({"ProfilingParameters": {PYTHON: {**GOOD, "ProfilerName": "x"}, PARALLEL: GOOD}}, (4,), 1, 0),
        ({"ProfilingParameters": {PYTHON: {**GOOD, "cProfileTimer": "x"}, PARALLEL: GOOD}}, (4,), 1, 0),
    ],
)
def test_a_bad_configuration_costs_what_is_bad_and_is_said_once(tmp_path, text, steps, problems, notices):
    path = tmp_path / "profilerconfig.json"
    if text is not None:
        path.write_text(text if isinstance(text, str) else json.dumps(text))
    found = load(path)
    assert tuple(one.start_step for one in found.windows) == steps
    assert (len(found.problems), len(found.notices)) == (problems, notices)


def test_what_upstream_says_of_a_training_that_it_does_not_know(train, monkeypatch):
    """No torch, as with another framework: the window is refused with the reason, the training goes on."""
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    _, made = opened(train, DETAILED, GOOD)
    (told,) = made.told()
    assert "uses none of them" in told["refused"]
    assert made.session.step == NOW - 1 + 8
