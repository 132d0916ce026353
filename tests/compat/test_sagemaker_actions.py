"""Upstream's actions become ours."""

from __future__ import annotations

import json

import pytest

from holter.actions import BadAction, sms, stop_training
from holter.actions import email as mail
from holter.compat.sagemaker.actions import SMS, ActionList, Email, StopTraining, translated


def test_a_list_a_lone_one_and_the_text_they_travel_as():
    many = ActionList(StopTraining("my-job"), Email("Jane.Doe@Sub.example.org"), SMS("+491701234567"))
    ours = [
        stop_training.StopTraining(job_prefix="my-job"),
        mail.Email(to=("Jane.Doe@Sub.example.org",)),
        sms.Sms(to=("+491701234567",)),
    ]
    assert translated(many) == ours
    assert translated(json.dumps(many.serialize())) == ours
    assert translated(Email("a@b.org")) == [mail.Email(to=("a@b.org",))]
    assert translated(StopTraining()) == [stop_training.StopTraining()]
    assert translated("[]") == []


def test_what_is_no_action_is_refused():
    with pytest.raises(TypeError, match="StopTraining, Email and SMS"):
        ActionList("stop")
    with pytest.raises(BadAction, match="no mail address"):
        translated(Email("a@b"))
    with pytest.raises(BadAction, match="no telephone number"):
        translated(SMS("0170"))
