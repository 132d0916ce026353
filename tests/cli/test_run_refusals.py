"""A wrong `holter run` is refused in one line before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.conftest import job

from holter.agent import python_samples
from holter.agent.python_samples import VARIABLE
from holter.cli.run.plan import plan
from holter.schema.windows import ENV_PROFILE, ProfilingOrder

TOUCH = ("--", "touch", "started")


@pytest.fixture(autouse=True)
def nothing_started(own_folder):
    yield
    assert not Path("started").exists(), "the command was started"


def test_nothing_to_run(holter):
    holter("run").refused(64, "nothing to run", "holter run -- python train.py")
    holter("run", "--").refused(64, "nothing to run")


def test_no_such_program(holter):
    holter("run", "--", "frobnicate-3").refused(64, "'frobnicate-3'", "PATH")
    holter("run", "--", "./gone/train").refused(64, "'./gone/train'", "no such file")


def test_a_script_that_is_not_executable(holter):
    Path("train.py").write_text("print()")
    holter("run", "--", "./train.py").refused(64, "not executable", "python ./train.py")
    holter("run", "--", "train.py").refused(64, "'train.py'")
    Path("folder").mkdir()
    holter("run", "--", "./folder").refused(64, "folder")


def test_an_empty_value_is_not_taken_for_the_default(holter):
    holter("run", "--job", "", *TOUCH).refused(64, "--job is empty")
    holter("run", "--store=", *TOUCH).refused(64, "--store is empty")
    holter("describe", "").refused(64, "JOB is empty")
    assert plan(["--no-rules", "touch", "", "started"]).command == ["touch", "", "started"]


def test_a_store_of_no_known_kind(holter):
    for words in (("run", *TOUCH), ("jobs",), ("describe", "latest")):
        given = [words[0], "--store", "nope://x", *words[1:]]
        code = 64 if words[0] == "run" else 65
        holter(*given).refused(
            code, "'nope://x' is not a store: valid are a folder, s3://…, gs://…, and az://…"
        )


def test_interval_that_is_not_allowed(holter):
    holter("run", "--interval", "300ms", *TOUCH).refused(
        64, "300ms", "100ms, 200ms, 500ms, 1s, 5s, 1min", "nearest: 200ms"
    )
    holter("run", "--interval", "soon", *TOUCH).refused(64, "'soon'")


def test_python_is_sampled_at_a_rate_that_is_possible(holter, monkeypatch, capsys):
    holter("run", "--python-hz", "often", *TOUCH).refused(64, "--python-hz often", "0 (never) to 20")
    Path("run.toml").write_text("python-hz = 21\n")
    holter("run", "--config", "run.toml", *TOUCH).refused(64, "--python-hz 21", "0 (never) to 20")
    Path("run.toml").write_text("[run]\npython_hz = 2.5\n")
    assert plan(["--config", "run.toml", *TOUCH]).variables[VARIABLE] == "2.5"
    assert plan(["--config", "run.toml", "--python-hz", "0", *TOUCH]).variables[VARIABLE] == "0"
    assert VARIABLE not in plan(TOUCH).variables
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr(python_samples.sysconfig, "get_path", lambda name: "gone")
    capsys.readouterr()
    plan(["--python-hz", "5", *TOUCH])
    assert "--python-hz 5: py-spy is not installed" in capsys.readouterr().err


def test_job_name_that_is_taken(holter):
    job("mine")
    holter("run", "--job", "mine", *TOUCH).refused(64, "'mine'", "exists", "mine-2")


def test_job_name_that_is_none(holter):
    holter("run", "--job", "-a b", *TOUCH).refused(64)
    holter("run", "--job", "a b", *TOUCH).refused(64, "'a b'", "letters")


def test_store_that_cannot_be_written(holter):
    Path("file").write_text("")
    holter("run", "--store", "file/jobs", *TOUCH).refused(64, "file/jobs")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_store_without_permission(holter):
    Path("locked").mkdir(mode=0o500)
    holter("run", "--store", "locked/jobs", *TOUCH).refused(64, "locked/jobs")


def test_unknown_rule(holter):
    holter("run", "--rule", "LowGPUUtilisation", *TOUCH).refused(
        64, "LowGPUUtilisation", "did you mean LowGPUUtilization?"
    )


def test_unknown_parameter(holter):
    holter("run", "--rule", "LowGPUUtilization:treshold_p95=3", *TOUCH).refused(
        64, "treshold_p95", "threshold_p95"
    )


def test_parameter_of_the_wrong_kind(holter):
    holter("run", "--rule", "LowGPUUtilization:threshold_p95=warm", *TOUCH).refused(
        64, "threshold_p95", "warm"
    )
    holter("run", "--rule", "LowGPUUtilization:threshold_p95", *TOUCH).refused(64, "threshold_p95")


def test_fail_on_a_rule_that_is_off(holter):
    holter("run", "--no-rules", "--fail-on", "LowGPUUtilization", *TOUCH).refused(
        64, "LowGPUUtilization", "off"
    )
    holter("run", "--fail-on", "StepOutlir", *TOUCH).refused(64, "StepOutlier")


def test_fail_on_takes_any_spelling():
    made = plan(["--fail-on", "step_outlier", "--fail-on", "issue", "--", "true"])
    assert made.fail_on == ("StepOutlier", "issue")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("5", "FIRST:LAST"),
        ("10:5", "FIRST:LAST"),
        ("0:20000", "valid: 1 to 10000"),
        ("5:10:cprofil", "did you mean 'cprofile'"),
        ("5:10:cprofile,timer=cpu", "no timer 'cpu'"),
        ("5:10:timer=cpu_time", "a timer is one of cprofile"),
        ("5:10:rank=x", "no 'rank=x'"),
    ],
)
def test_steps_that_cannot_be_profiled(holter, given, says):
    holter("run", "--profile-steps", given, *TOUCH).refused(64, "--profile-steps", says)


def test_option_after_the_dashes_is_the_commands_own(holter):
    holter("run", "x", "--", "true").refused(64, "'x'", "before --")


def test_config_file(holter):
    holter("run", "--config", "gone.toml", *TOUCH).refused(64, "gone.toml", "No such file")
    Path("bad.toml").write_bytes(b"interval = \r\n")
    holter("run", "--config", "bad.toml", *TOUCH).refused(64, "bad.toml", "line")
    Path("typo.toml").write_bytes(b"intervall = '1s'\r\n")
    holter("run", "--config", "typo.toml", *TOUCH).refused(64, "'intervall'", "did you mean 'interval'?")
    Path("rule.toml").write_bytes(b"[rules.LowGPUUtilization]\r\ntreshold_p95 = 1\r\n")
    holter("run", "--config", "rule.toml", *TOUCH).refused(64, "treshold_p95", "threshold_p95")
    Path("latin.toml").write_bytes(b"job = '\xe4'\n")
    holter("run", "--config", "latin.toml", *TOUCH).refused(64, "UTF-8")


def test_node_name(holter):
    holter("run", "--node", "a/b", *TOUCH).refused(64, "'a/b'")


def test_tensors_that_cannot_be_saved(holter):
    holter("run", "--save", "gradiants@10", *TOUCH).refused(64, "'gradiants'", "did you mean 'gradients'")
    holter("run", "--save", "weights@0", *TOUCH).refused(64, "interval 0", "weights@0")
    holter("run", "--save", "weights:hist", *TOUCH).refused(64, "'hist'", "histogram")
    holter("run", "--save", "/(/", *TOUCH).refused(64, "no regular expression")
    Path("hook.json").write_text('{"HookParameters": {"save_intervall": "5"}}')
    holter("run", "--config", "hook.json", *TOUCH).refused(
        64, "save_intervall", "did you mean 'save_interval'"
    )
    Path("hook.json").write_text('{"CollectionConfigurations": [{"CollectionName": "gradiants"}]}')
    holter("run", "--config", "hook.json", *TOUCH).refused(64, "gradiants", "did you mean 'gradients'")
    Path("hook.json").write_text('{"HookParameters": {"reductions": "men"}}')
    holter("run", "--config", "hook.json", *TOUCH).refused(64, "'men'", "mean")


def test_sagemakers_profiler_configuration(holter):
    def config(text):
        Path("profilerconfig.json").write_text(text)
        return holter("run", "--config", "profilerconfig.json", *TOUCH)

    config('{"ProfilingParameters": {').refused(64, "profilerconfig.json", "Expecting")
    config("[]").refused(64, "profilerconfig.json", "ProfilingParameters")
    config('{"ProfilingParameters": {"DetailedProfilingConfig": "open(1)"}}').refused(
        64, "DetailedProfilingConfig is off", "'open(1)' is no dictionary"
    )
    config('{"ProfilingIntervalInMilliseconds": 300, "DisableProfiler": true}').refused(64, "300", "100, 200")


def test_sagemakers_profiler_configuration_becomes_windows(own_folder):
    Path("p.json").write_text(
        '{"ProfilingIntervalInMilliseconds": "200", "ProfilingParameters":'
        " {\"PythonProfilingConfig\": \"{'StartStep': '1000', 'NumSteps': 500}\"}}"
    )
    made = plan(["--config", "p.json", "--profile-steps", "7:9", "--", "true"])
    assert made.options.interval == 200
    order = ProfilingOrder.from_text(made.variables[ENV_PROFILE])
    assert [(one.profiler, one.start_step, one.steps) for one in order.requests] == [
        ("python", 1000, 500),
        ("operators", 7, 2),
    ]
    disabled = '{"DisableProfiler": "True", "ProfilingParameters": {"DetailedProfilingConfig": "{}"}}'
    Path("p.json").write_text(disabled)
    assert plan(["--config", "p.json", "--", "true"]).variables[ENV_PROFILE] == ""


def test_sagemakers_own_variable_names_a_configuration_and_refuses_nothing(own_folder, monkeypatch, capsys):
    monkeypatch.setenv("SMPROFILER_CONFIG_PATH", "p.json")
    assert plan(["--", "true"]).variables[ENV_PROFILE] == ""  # it is not there
    detailed = '"DetailedProfilingConfig": {"StartStep": 3}, "PythonProfilingConfig": "x"'
    Path("p.json").write_text(f'{{"ProfilingParameters": {{{detailed}}}}}')
    (request,) = ProfilingOrder.from_text(plan(["--", "true"]).variables[ENV_PROFILE]).requests
    assert (request.profiler, request.start_step) == ("operators", 3)
    assert "p.json: PythonProfilingConfig is off: 'x' is no dictionary" in capsys.readouterr().err
