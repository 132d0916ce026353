"""A wrong `--action` is refused in one line before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from holter.cli.run.plan import plan

TOUCH = ("--", "touch", "started")


@pytest.fixture(autouse=True)
def nothing_started(own_folder, monkeypatch):
    for name in ("HOOK_URL", "SMTP_HOST"):
        monkeypatch.delenv(name, raising=False)
    yield
    assert not Path("started").exists(), "the command was started"
    assert not Path("holter-jobs").exists(), "a job was made"


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("webhok:url_env=HOOK_URL", "did you mean 'webhook'"),
        ("webhook:url=x", "holds no URL"),
        ("webhook:url_env=HOOK_URL", "HOOK_URL is not set"),
        ("webhook:urlenv=HOOK_URL", "did you mean 'url_env'"),
        ("email:to=nobody", "no mail address"),
        ("email:to=a@b.org", "SMTP_HOST is not set"),
        ("sms:to=911", "no telephone number"),
        ("stop:on=LossSpyke", "on=LossSpyke: no rule 'LossSpyke'"),
        ("exec:argv=no-such-program-4", "no-such-program-4"),
    ],
)
def test_it_is_refused(holter, action, says):
    holter("run", "--action", action, *TOUCH).refused(64, says)


def test_actions_need_rules(holter):
    holter("run", "--no-rules", "--action", "stop", *TOUCH).refused(64, "needs a rule")


def test_a_rule_that_is_off_is_refused(holter):
    holter("run", "--no-rules", "--rule", "StepOutlier", "--action", "log:on=NonFiniteLoss", *TOUCH).refused(
        64, "this rule is off; running: StepOutlier"
    )


def test_config_file(holter):
    Path("a.toml").write_text("[actions]\ndo = 'stop'\n")
    holter("run", "--config", "a.toml", *TOUCH).refused(64, "a.toml", "[[actions]]")
    Path("b.toml").write_text("[[actions]]\non = 'StepOutlier'\n")
    holter("run", "--config", "b.toml", *TOUCH).refused(64, "has no `do`")
    Path("c.toml").write_text("[[actions]]\ndo = ['stopp']\n")
    holter("run", "--config", "c.toml", *TOUCH).refused(64, "did you mean 'stop_training'")


def test_all_of_it_is_planned(monkeypatch):
    monkeypatch.setenv("HOOK_URL", "https://example.org/secret-path")
    Path("a.toml").write_text(
        'action = "tag"\n[[actions]]\non = {rule = "NonFiniteLoss", severity = "critical"}\narmed = true\n'
        'do = [{stop = {grace_s = 5}}, {webhook = {url_env = "HOOK_URL"}}]\n'
    )
    made = plan(["--config", "a.toml", "--action", "stop:on=StepOutlier", "--", "true"])
    names = [(order["name"], order["on"], order["dry_run"]) for order in made.actions]
    assert names == [
        ("stop_training", ["NonFiniteLoss"], False),
        ("webhook", ["NonFiniteLoss"], False),
        ("tag", [], False),
        ("stop_training-2", ["StepOutlier"], False),
    ]
    assert "secret-path" not in str(made)
