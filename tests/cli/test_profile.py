"""`holter profile`: its options are checked, then written as an order for the agents."""

from __future__ import annotations

import time

import pytest
from tests.cli.conftest import job

from holter.cli.run.plan import plan
from holter.schema import windows


def running(name: str = "job", obeys: tuple[str, ...] = ("stop", "profile")):
    folder = job(name, status="InProgress", age_s=5)
    folder.write_node("node", {"heartbeat": time.time_ns(), "obeys": list(obeys)})
    return folder


def test_a_window_is_asked_for(holter):
    folder = running()
    answer = holter("profile", "job", "--count", "3", "--operators", "--python", "cprofile", "--rank", "1")
    assert answer.code == 0, answer.err
    assert answer.out == "job job: 3 steps of operators, then python on rank 1, from the next step on\n"
    order = folder.control()["profile"]
    assert order.pop("id").startswith("cli-")
    assert order == {"steps": 3, "operators": True, "python": "cprofile", "rank": 1}
    assert [one.profiler for one in windows.order_of(order).requests] == ["operators", "python"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "5 steps of operators, from the next step on"),
        (("--seconds", "2.5"), "2.5 s of operators, from the next step on"),
        (("--steps", "1000:1001", "--dataloader"), "1 step of dataloader, from step 1000 on"),
        (("--rank", "0", "--steps", "0:5"), "5 steps of operators on rank 0, from step 0 on"),
        (("--off",), "profiling is off"),
    ],
)
def test_it_says_what_will_happen(holter, words, says):
    running()
    answer = holter("profile", "job", *words)
    assert answer.code == 0, answer.err
    assert says in answer.out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("job", "--count", "0"), 64, "valid: 1 to 10000"),
        (("job", "--steps", "100:20000"), 64, "valid: 1 to 10000"),
        (("job", "--count", "3", "--seconds", "3"), 64, "by steps and by time"),
        (("job", "--count", "3", "--steps", "3:6"), 64, "give one of them"),
        (("job", "--steps", "3"), 64, "--count 3 profiles the next steps"),
        (("job", "--steps", "3:"), 64, "no begin or no end"),
        (("job", "--steps", "6:3"), 64, "ends before it begins"),
        (("job", "--seconds", "-1"), 64, "more than 0, at most 600"),
        (("job", "--steps=-3:2"), 64, "valid: 0 or more"),
        (("job", "--python", "cprofil"), 64, "did you mean 'cprofile'"),
        (("job", "--python", "cprofile", "--timer", "cpu_tim"), 64, "did you mean 'cpu_time'"),
        (("job", "--timer", "cpu_time"), 64, "--python cprofile"),
        (("job", "--stepz", "3"), 64, "--steps"),
        (("other",), 4, "other"),
        (("done",), 5, "Completed"),
        (("old",), 5, "older version"),
    ],
)
def test_what_cannot_be_is_refused(holter, words, code, says):
    folder = running()
    job("done")
    running("old", obeys=("stop",))
    holter("profile", *words).refused(code, says)
    assert folder.control() == {}


def test_the_look_is_chosen_on_the_command_line_and_in_a_file(tmp_path, holter):
    (tmp_path / "holter.toml").write_text('look = "never"\n')
    words = ["--config", "holter.toml", "--", "true"]
    assert plan(words).variables[windows.ENV_LOOK] == "never"
    assert plan(["--look", "always", *words]).variables[windows.ENV_LOOK] == "always"
    assert windows.ENV_LOOK not in plan(["--", "true"]).variables, "the environment decides"
    holter("run", "--look", "alway", "--", "true").refused(64, "did you mean 'always'", "never, auto, always")


def test_steps_to_profile_from_the_command_line_and_from_a_file(tmp_path):
    (tmp_path / "holter.toml").write_text('profile-steps = ["1000:1500", "20:22:shapes,rank=0"]\n')
    words = ["--config", "holter.toml", "--profile-steps", "7:8:cprofile,timer=cpu_time", "--", "true"]
    text = plan(words).variables[windows.ENV_PROFILE]
    order = windows.ProfilingOrder.from_text(text)
    assert not order.refused
    found = [(one.profiler, one.start_step, one.steps, one.rank, one.parameters) for one in order.requests]
    assert found == [
        ("operators", 1000, 500, None, {}),
        ("operators", 20, 2, 0, {"shapes": True}),
        ("python", 7, 1, None, {"profiler": "cprofile", "timer": "cpu_time"}),
    ]
