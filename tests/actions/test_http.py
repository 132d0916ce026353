"""Web hooks and text messages, sent to a real server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import re
from dataclasses import replace
from email.parser import BytesParser
from email.policy import default
from itertools import groupby
from urllib.parse import parse_qs

import pytest
from PIL import Image
from tests.actions.receivers import http
from tests.cli.conftest import told

from holter.actions import ActionFailed, BadAction, Secrets, TryAgain
from holter.actions.sms import Sms, check_number
from holter.actions.webhook import Webhook


def test_an_event_as_cloudevents_has_it(occasion):
    with http() as hook:
        action = Webhook(url_env="HOOK")
        assert action.act(occasion, Secrets({"HOOK": f"{hook.url}/in"})) == "sent (HTTP 200)"
    ((method, path, headers, body),) = hook.requests
    assert (method, path, headers["content-type"]) == ("POST", "/in", "application/cloudevents+json")
    event = json.loads(body)
    assert {"specversion", "id", "source", "type", "time", "data"} <= set(event)
    assert event["type"] == "training.rule.state_change"
    assert event["data"]["issue"]["evidence"] == {"value": 9.8}
    assert event["data"]["statuses"] == {"LossSpike": "IssuesFound"}
    assert (event["data"]["job"], event["data"]["rule"]) == ("my-job", "LossSpike")


def test_it_is_signed(occasion):
    with http() as hook:
        secrets = Secrets({"HOOK": hook.url, "KEY": "k3y"})
        Webhook(url_env="HOOK", secret_env="KEY").act(occasion, secrets)
    _, _, headers, body = hook.requests[0]
    signed = headers["x-holter-timestamp"].encode() + b"." + body
    assert headers["x-holter-timestamp"] == "1700000000"
    expected = hmac.new(b"k3y", signed, hashlib.sha256).hexdigest()
    assert headers["x-holter-signature"] == f"sha256={expected}"


def test_slack_and_discord_cannot_be_made_to_call_everybody(occasion):
    with http() as hook:
        for kind in ("slack", "discord"):
            Webhook(url_env="HOOK", format=kind).act(occasion, Secrets({"HOOK": hook.url}))
    slack, discord = (json.loads(body) for *_, body in hook.requests)
    assert "&lt;!channel&gt;" in slack["text"]
    assert "<!channel>" not in slack["text"]
    assert discord["allowed_mentions"] == {"parse": []}
    assert "loss rose" in discord["content"]
    assert len(discord["content"]) <= 2000


def test_teams_gets_an_adaptive_card_without_markup(occasion):
    with http() as hook:
        Webhook(url_env="HOOK", format="teams").act(occasion, Secrets({"HOOK": hook.url}))
    told = json.loads(hook.requests[0][-1])
    (card,) = told["attachments"]
    assert (told["type"], card["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    blocks = card["content"]["body"]
    assert {block["type"] for block in blocks} == {"RichTextBlock"}, "text runs know no links"
    (first,) = blocks[0]["inlines"]
    assert first["weight"] == "bolder"
    assert "loss rose" in first["text"]


@pytest.fixture
def occasion_with_steps(occasion, tmp_path):
    folder, _ = told("before", str(tmp_path / "generated"), ranks=1, cores=2, steps=100, samples=60)
    return replace(occasion, folder=folder)


def test_discord_gets_the_ledger_as_a_picture(occasion_with_steps):
    with http() as hook:
        done = Webhook(url_env="HOOK", format="discord").act(occasion_with_steps, Secrets({"HOOK": hook.url}))
    assert done == "sent (HTTP 200)"
    _, _, headers, body = hook.requests[0]
    head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
    message, picture = BytesParser(policy=default).parsebytes(head + body).iter_parts()
    told = json.loads(message.get_payload(decode=True))
    assert message.get_param("name", header="content-disposition") == "payload_json"
    assert "loss rose" in told["content"]
    assert told["allowed_mentions"] == {"parse": []}
    (file,) = told["attachments"]
    assert picture.get_param("name", header="content-disposition") == f"files[{file['id']}]"
    assert picture.get_filename() == file["filename"]
    shows(picture.get_payload(decode=True), file["description"])


def test_teams_gets_the_ledger_in_its_card(occasion_with_steps):
    with http() as hook:
        Webhook(url_env="HOOK", format="teams").act(occasion_with_steps, Secrets({"HOOK": hook.url}))
    body = hook.requests[0][-1]
    assert len(body) < 28_000, "Teams takes no larger message"
    *_, image = json.loads(body)["attachments"][0]["content"]["body"]
    kind, data = image["url"].split(",")
    assert (image["type"], kind) == ("Image", "data:image/png;base64")
    shows(base64.b64decode(data), image["altText"])


def test_slack_gets_the_ledger_as_text(occasion_with_steps):
    with http() as hook:
        Webhook(url_env="HOOK", format="slack").act(occasion_with_steps, Secrets({"HOOK": hook.url}))
    text = json.loads(hook.requests[0][-1])["text"]
    _, block, rest = text.split("```")
    first, *bars = block.strip().splitlines()
    assert re.fullmatch(r"one step, [\d.]+ m?s", first)
    assert rest == ""
    shares = [int(re.fullmatch(r"[a-z ]+? +(\d+) %( █+)?", bar)[1]) for bar in bars]
    assert shares == sorted(shares, reverse=True)
    assert 90 <= sum(shares) <= 102
    assert bars[0].count("█") == max(bar.count("█") for bar in bars) == round(shares[0] * 0.3)


def shows(png: bytes, sentence: str) -> None:
    """Check that a picture shows the shares of a sentence, from left to right, in different colors."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    width, height = picture.size
    row = [picture.getpixel((x, height // 2)) for x in range(width)]
    lengths = [len(list(same)) for _, same in groupby(row)]
    shares = [int(share) for share in re.findall(r"(\d+) %", sentence)]
    assert len(set(row)) == len(shares) == len(lengths) >= 3
    drawn = [100 * length / width for length in lengths]
    assert drawn == pytest.approx([100 * share / sum(shares) for share in shares], abs=2)


def test_more_headers_and_another_method(occasion):
    with http() as hook:
        secrets = Secrets({"HOOK": hook.url, "MORE": '{"X-Api-Key": "sesame-open"}'})
        Webhook(url_env="HOOK", headers_env="MORE", method="PUT").act(occasion, secrets)
    method, _, headers, _ = hook.requests[0]
    assert (method, headers["x-api-key"]) == ("PUT", "sesame-open")
    assert secrets.hide("he said sesame-open") == "he said ***"


@pytest.mark.parametrize(
    ("code", "again"), [(500, True), (503, True), (429, True), (400, False), (404, False)]
)
def test_what_a_receiver_answers_decides_whether_to_try_again(code, again, occasion):
    with http() as hook:
        hook.answers = [(code, {"Retry-After": "7"}, b"go away")]
        with pytest.raises(ActionFailed, match=f"HTTP {code}: go away") as refused:
            Webhook(url_env="HOOK").act(occasion, Secrets({"HOOK": hook.url}))
    assert isinstance(refused.value, TryAgain) is again
    if again:
        assert refused.value.after_s == 7


def test_a_redirect_is_not_followed(occasion):
    with http() as other, http() as hook:
        hook.answers = [(302, {"Location": other.url}, b"")]
        with pytest.raises(ActionFailed, match="HTTP 302"):
            Webhook(url_env="HOOK").act(occasion, Secrets({"HOOK": hook.url}))
    assert not other.requests


def test_nobody_there(occasion):
    with http() as hook:
        pass
    with pytest.raises(TryAgain, match="Connection"):
        Webhook(url_env="HOOK").act(occasion, Secrets({"HOOK": hook.url}))


@pytest.mark.parametrize(
    ("options", "environment", "says"),
    [
        ({}, {}, "either url_env=VARIABLE or url=URL"),
        ({"url_env": "HOOK"}, {}, "HOOK is not set"),
        ({"url_env": "HOOK"}, {"HOOKS": "x"}, "did you mean HOOKS"),
        ({"url_env": "HOOK"}, {"HOOK": "not a url with-a-secret"}, "HOOK holds no URL"),
        ({"url_env": "HOOK"}, {"HOOK": "file:///etc/passwd"}, "HOOK holds no URL"),
        ({"url": "https://hooks.slack.com/services/T0/B0/x"}, {}, "holds a secret"),
        ({"url": "https://me:secret@example.org/"}, {}, "holds a secret"),
        ({"url": "https://example.org/?token=x"}, {}, "holds a secret"),
        ({"url_env": "HOOK", "secret_env": "KEY"}, {"HOOK": "https://example.org"}, "KEY is not set"),
        ({"url_env": "HOOK", "headers_env": "M"}, {"HOOK": "https://a.org", "M": "[1]"}, "no JSON object"),
        ({"url_env": "HOOK", "format": "irc"}, {}, "generic or slack or discord or teams"),
        ({"url_env": "HOOK", "timeout_s": "0"}, {}, "timeout_s"),
    ],
)
def test_a_web_hook_that_cannot_work_is_refused(options, environment, says):
    with pytest.raises(BadAction, match=says) as refused:
        Webhook.of(options).check(Secrets(environment))
    assert "with-a-secret" not in str(refused.value)


def test_a_text_message(occasion):
    with http() as hook:
        secrets = Secrets({"SMS_GATEWAY_URL": hook.url, "SMS_GATEWAY_TOKEN": "tok-1234"})
        Sms(to=("+491701234567", "+14155550100")).act(occasion, secrets)
        Sms(to=("+491701234567",), format="form", to_field="To", text_field="Body").act(occasion, secrets)
    first, second, form = hook.requests
    told = json.loads(first[3])
    assert told["to"] == "+491701234567"
    assert json.loads(second[3])["to"] == "+14155550100"
    assert len(told["text"]) <= 160
    assert "LossSpike" in told["text"]
    assert first[2]["authorization"] == "Bearer tok-1234"
    assert first[2]["idempotency-key"] != second[2]["idempotency-key"]
    fields = parse_qs(form[3].decode())
    assert fields["To"] == ["+491701234567"]
    assert "my-job" in fields["Body"][0]


def test_a_long_finding_is_cut(occasion):
    long = {**occasion.issue, "summary": "x" * 1000}
    with http() as hook:
        secrets = Secrets({"SMS_GATEWAY_URL": hook.url, "SMS_GATEWAY_TOKEN": "t"})
        Sms(to=("+491701234567",)).act(replace(occasion, issue=long), secrets)
    assert len(json.loads(hook.requests[0][3])["text"]) == 160


@pytest.mark.parametrize("number", ["+1234567", "+491701234567", "+123456789012345"])
def test_good_numbers(number):
    check_number(number, "sms")


@pytest.mark.parametrize(
    "number", ["", "0170123456", "+0123456789", "+123456", "+1234567890123456", "+49 170 1", "+1٣٣٣٣٣٣٣"]
)
def test_bad_numbers(number):
    with pytest.raises(BadAction, match="no telephone number"):
        check_number(number, "sms")


def test_a_gateway_without_a_token_is_refused():
    with pytest.raises(BadAction, match="SMS_GATEWAY_TOKEN is not set"):
        Sms(to=("+491701234567",)).check(Secrets({"SMS_GATEWAY_URL": "https://example.org"}))
