"""How orders are written, and everything that is refused before training starts."""

from __future__ import annotations

import pytest

from holter.actions import BadAction, Limits
from holter.actions._orders import choose
from holter.actions.email import Email
from holter.actions.run_command import RunCommand
from holter.actions.stop_training import StopTraining
from holter.actions.webhook import Webhook

RULES = [
    {"name": "StepOutlier", "rule": "StepOutlier"},
    {"name": "strict", "rule": "LowGPUUtilization"},
    {"name": "NonFiniteLoss", "rule": "NonFiniteLoss"},
]


def one(given):
    (order,) = choose([given], RULES)
    return order


def test_a_line_of_the_command_line():
    order = one("email:to=[A@b.org,c@d.org],on=step_outlier|strict,severity=critical,cooldown_s=60,retries=1")
    assert order.action == Email(to=("A@b.org", "c@d.org"))
    assert order.on == ("StepOutlier", "strict")
    assert order.severity == "critical"
    assert (order.limits.cooldown_s, order.limits.dedupe_s, order.limits.retries) == (60, 900, 1)
    assert order.dry_run is False


def test_a_name_may_be_short_or_mean_an_option():
    assert one("stop").action == StopTraining()
    assert one("slack:url_env=X").action == Webhook(url_env="X", format="slack")
    assert one("exec:argv='sh -c \"exit 3, please\"'").action == RunCommand(
        argv=("sh", "-c", "exit 3, please")
    )


def test_the_rule_is_found_by_its_own_or_its_rules_name():
    assert one("log:on=LowGPUUtilization").on == ("LowGPUUtilization",)
    assert one("log:on=strict").on == ("strict",)


def test_what_the_user_typed_is_meant_and_what_a_file_says_is_armed():
    assert one("stop").dry_run is False
    assert one("stop:dry_run=true").dry_run is True
    assert one({"do": ["stop"]}).dry_run is True
    assert one({"do": ["stop"], "armed": True}).dry_run is False
    assert one({"do": [{"exec": {"argv": ["true"]}}]}).dry_run is True
    assert one({"do": ["log"]}).dry_run is False


def test_a_table_of_toml():
    table = {
        "on": {"rule": ["NonFiniteLoss", "StepOutlier"], "severity": ">=warn"},
        "cooldown_s": 1800,
        "max_per_run": 20,
        "do": [
            {"stop": {"grace_s": 120}},
            {"notify": {"channel": "email", "to": ["ml-oncall@example.org"]}},
            "webhook:url_env=HOOK_URL",
        ],
    }
    stop, mail, hook = choose([table], RULES)
    assert stop.action == StopTraining(grace_s=120)
    assert mail.action == Email(to=("ml-oncall@example.org",))
    assert hook.action == Webhook(url_env="HOOK_URL")
    assert {order.severity for order in (stop, mail, hook)} == {"warning"}
    assert mail.limits == Limits(cooldown_s=1800, dedupe_s=900, max_per_run=20)


def test_two_of_a_kind_have_two_names():
    assert [order.name for order in choose(["log", "log:file=x", "stop"])] == [
        "log",
        "log-2",
        "stop_training",
    ]


def test_what_sagemaker_writes():
    text = """[{"name": "StopTraining", "training_job_prefix": "my-job"},
               {"name": "email", "endpoint": "Jane.Doe+x@Sub.example.org"},
               {"name": "SMS", "endpoint": "+1234567"}]"""
    stop, mail, sms = choose([text])
    assert stop.action == StopTraining(job_prefix="my-job")
    assert mail.action.to == ("Jane.Doe+x@Sub.example.org",), "upstream lowered it"
    assert sms.action.to == ("+1234567",)


REFUSED = [
    ("stop_trainin", "did you mean 'stop_training'"),
    ("", "names no action"),
    ("emial:to=a@b.org", "did you mean 'email'"),
    ("email", "to is missing"),
    ("email:to=a@b", "no mail address"),
    ("email:too=a@b.org", "did you mean 'to'"),
    ("email:to", "no option"),
    ("email:to=a@b.org,to=c@d.org", "given twice"),
    ("email:to=a@b.org,email_address=c@d.org", "given twice"),
    ("email:to=[a@b.org", "bracket does not end"),
    ("exec:argv='x", "quote does not end"),
    ("exec", "argv is missing"),
    ("sms:to=0170", "no telephone number"),
    ("log:level=loud", "debug or info"),
    ("log:on=StepOutlyer", "did you mean StepOutlier"),
    ("log:on=CPUBottleneck", "this rule is off; running: StepOutlier, strict"),
    ("log:severity=fatal", "info, warning, critical"),
    ("log:severity=criticl", "did you mean 'critical'"),
    ("log:cooldown_s=soon", "a number from 0"),
    ("log:max_per_run=0", "a whole number from 1"),
    ("log:retries=1.5", "a whole number from 0 to 10"),
    ("log:dry_run=maybe", "true or false"),
    ("stop:grace_s=-1", "from 0 to 86400"),
    ("stop:job_prefix=a b", "no start of a job's name"),
    ("tag:key=a b", "letters, digits"),
    ('[{"name": "page"}]', "stoptraining, email, sms"),
    ('[{"nome": "email"}]', "is no action"),
    ("[1", "no JSON"),
    ({"on": "StepOutlier"}, "has no `do`"),
    ({"do": [3]}, "is no action"),
    ({"do": ["log"], "when": 1}, "no entry 'when'"),
    ({"do": ["log"], "on": {"rules_": 1}}, "valid: rule, severity"),
]


@pytest.mark.parametrize(("given", "says"), REFUSED, ids=[str(given) for given, _ in REFUSED])
def test_it_is_refused_with_what_is_valid(given, says):
    with pytest.raises(BadAction) as refused:
        choose([given], RULES)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
