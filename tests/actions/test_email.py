"""Mail, handed to a real server."""

from __future__ import annotations

import email
import email.policy

import pytest
from tests.actions.receivers import smtp

from holter.actions import ActionFailed, BadAction, Secrets, TryAgain
from holter.actions.email import Email, check_address

PASSWORD = "correct horse battery"


def surroundings(box, folder=None, **more):
    given = {"SMTP_HOST": "localhost", "SMTP_PORT": str(box.port), "SMTP_FROM": "holter@example.org"}
    given["SMTP_SECURITY"] = box.security
    if folder is not None and box.security != "none":
        given["SMTP_CA_FILE"] = str(folder / "cert.pem")
    if box.user:
        given |= {"SMTP_USER": box.user, "SMTP_PASSWORD": PASSWORD}
    return Secrets({**given, **more})


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_a_mail_arrives(security, tmp_path, occasion):
    user = "" if security == "none" else "me"
    with smtp(tmp_path, security, user, PASSWORD) as box:
        action = Email.of({"to": "[Jane.Doe+ml@Sub.Example.org, ops@example.com]"})
        secrets = surroundings(box, tmp_path)
        action.check(secrets)
        assert "Jane.Doe+ml@Sub.Example.org" in action.act(occasion, secrets)
    ((sender, recipients, text),) = box.mails
    assert box.encrypted == [security != "none"]
    assert sender == "holter@example.org"
    assert recipients == ["Jane.Doe+ml@Sub.Example.org", "ops@example.com"]
    mail = email.message_from_string(text, policy=email.policy.default)
    assert mail["Subject"] == "holter: critical: LossSpike in job my-job"
    body = mail.get_content()
    assert "loss rose from 0.21 to 9.8" in body
    assert "step 40" in body
    assert "Lower the learning rate." in body


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path, occasion):
    with smtp(tmp_path, "starttls") as box, pytest.raises(ActionFailed, match="certificate") as refused:
        Email(to=("a@b.org",)).act(occasion, surroundings(box))
    assert not isinstance(refused.value, TryAgain)
    assert not box.mails


def test_a_wrong_password_is_for_good_and_not_repeated(tmp_path, occasion):
    with smtp(tmp_path, "tls", "me", "another") as box:
        secrets = surroundings(box, tmp_path)
        with pytest.raises(ActionFailed, match="535") as refused:
            Email(to=("a@b.org",)).act(occasion, secrets)
    assert not isinstance(refused.value, TryAgain)
    assert PASSWORD in str(refused.value), "this server repeats it; otherwise nothing is hidden here"
    assert PASSWORD not in secrets.hide(str(refused.value))


@pytest.mark.parametrize(("answer", "again"), [(b"451 later", True), (b"552 too big", False)])
def test_what_a_server_says_decides_whether_to_try_again(answer, again, tmp_path, occasion):
    with smtp(tmp_path) as box:
        box.refuse = [answer]
        with pytest.raises(ActionFailed) as refused:
            Email(to=("a@b.org",)).act(occasion, surroundings(box))
    assert isinstance(refused.value, TryAgain) is again
    assert answer.decode()[:3] in str(refused.value)


def test_nobody_there(tmp_path, occasion):
    with smtp(tmp_path) as box:
        pass
    with pytest.raises(TryAgain, match="Refused"):
        Email(to=("a@b.org",)).act(occasion, surroundings(box))


def test_a_name_cannot_add_headers(tmp_path, occasion):
    occasion.issue["severity"] = "critical\r\nBcc: other@example.org"
    with smtp(tmp_path) as box:
        Email(to=("a@b.org",)).act(occasion, surroundings(box))
    mail = email.message_from_string(box.mails[0][2], policy=email.policy.default)
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("holter: critical Bcc: other@example.org")


GOOD = ["a@b.org", "First.Last+tag@sub.domain.museum", "o'neil@ex-ample.co.uk", "x" * 64 + "@example.org"]
BAD = [
    "",
    "a",
    "a@b",
    "@b.org",
    "a@",
    "a@@b.org",
    "a@b@c.org",
    "a b@c.org",
    "a@b..org",
    "a@-b.org",
    ".a@b.org",
    "a@b.org\nBcc: c@d.org",
    "a@b.org,",
    "x" * 65 + "@b.org",
    "a@" + "b" * 60 + ("." + "c" * 60) * 4,
]


@pytest.mark.parametrize("address", GOOD)
def test_good_addresses(address):
    check_address(address, "email")
    assert Email(to=(address,)).to == (address,), "its case is kept"


@pytest.mark.parametrize("address", BAD)
def test_bad_addresses(address):
    with pytest.raises(BadAction, match="no mail address"):
        check_address(address, "email")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "SMTP_HOST is not set"),
        ({"SMTP_HOST": "h", "SMTP_PORT": "99999"}, "SMTP_PORT='99999'"),
        ({"SMTP_HOST": "h", "SMTP_SECURITY": "ssl"}, "starttls, tls, none"),
        ({"SMTP_HOST": "h", "SMTP_USER": "me"}, "SMTP_PASSWORD is not set"),
        ({"SMTP_HOST": "h", "SMTP_USER": "me", "SMTP_PASSWORT": "x"}, "did you mean SMTP_PASSWORT"),
        (
            {"SMTP_HOST": "h", "SMTP_USER": "m", "SMTP_PASSWORD": "p", "SMTP_SECURITY": "none"},
            "readable by all",
        ),
        ({"SMTP_HOST": "h", "SMTP_CA_FILE": "/no/such"}, "SMTP_CA_FILE='/no/such' is no file"),
        ({"SMTP_HOST": "h", "SMTP_FROM": "me"}, "SMTP_FROM='me' is no mail address"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused(given, says):
    with pytest.raises(BadAction, match=says):
        Email(to=("a@b.org",)).check(Secrets(given))
