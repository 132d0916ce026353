"""Send the finding to a URL: Slack, Discord, Teams, or any receiver of JSON."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets as randomness
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holter.actions import Action, BadAction, Limits, Occasion, Secrets, parameter
from holter.actions._http import check_url, send
from holter.actions._ledger import ChatLedger, ledger
from holter.actions._words import document, moment, text

if TYPE_CHECKING:
    from holter.store.documents import Document

EVENT = "training.rule.state_change"
_DISCORD_LENGTH = 2000
_PICTURE = "ledger.png"
_CARD = "application/vnd.microsoft.card.adaptive"
_SECRET_HOSTS = re.compile(r"(^|\.)(slack\.com|discord\.com|discordapp\.com|office\.com|logic\.azure\.com)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Action):
    """Post the finding; with `secret_env` it is signed with HMAC-SHA256."""

    description = "posts the finding to a URL: Slack, Discord, Teams, or JSON as CloudEvents has it"
    also_called = ("http", "slack:format=slack", "discord:format=discord", "teams:format=teams")
    limits = Limits(max_per_run=100)

    url_env: str = parameter("")
    """The variable that holds the URL; the URL of a chat is a secret, because it allows writing to it."""
    url: str = parameter("")
    """A public URL; it is written to the store."""
    format: str = parameter("generic", choices=("generic", "slack", "discord", "teams"))
    """The format of the message."""
    method: str = parameter("POST", choices=("POST", "PUT"))
    """The HTTP method."""
    secret_env: str = parameter("")
    """The variable that holds the key of the signature."""
    headers_env: str = parameter("")
    """The variable that holds further headers, as a JSON object."""
    timeout_s: float = parameter(5.0, above=0, high=120, unit="s")
    """The longest wait for the receiver."""

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        if bool(self.url) == bool(self.url_env):
            raise BadAction(
                "webhook takes either url_env=VARIABLE or url=URL; write webhook:url_env=HOOK_URL"
            )
        if self.url:
            _check_public(check_url(self.url, "webhook: url"))

    def check(self, secrets: Secrets) -> None:
        """Refuse to start without the URL or the key."""
        self._url(secrets)
        if self.secret_env:
            secrets.need(self.secret_env, "webhook")
        self._headers(secrets)

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Send the finding."""
        body, kind = self._message(occasion)
        headers = {"Content-Type": kind, "User-Agent": "holter", **self._headers(secrets)}
        if self.secret_env:
            sent = str(occasion.time // 1_000_000_000)
            key = secrets.need(self.secret_env, "webhook").encode()
            # The time is signed too, so that a receiver can refuse repeated messages.
            signature = hmac.new(key, sent.encode() + b"." + body, hashlib.sha256).hexdigest()
            headers |= {"X-Holter-Timestamp": sent, "X-Holter-Signature": f"sha256={signature}"}
        answer = send(self._url(secrets), body, headers, timeout_s=self.timeout_s, method=self.method)
        return f"sent ({answer})"

    def _url(self, secrets: Secrets) -> str:
        return self.url or check_url(secrets.need(self.url_env, "webhook"), f"webhook: {self.url_env}")

    def _headers(self, secrets: Secrets) -> dict[str, str]:
        if not self.headers_env:
            return {}
        given = secrets.need(self.headers_env, "webhook")
        try:
            found = json.loads(given)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise BadAction(f"webhook: {self.headers_env} holds no JSON object of texts")
        for value in found.values():
            secrets.keep(value)
        return found

    def _message(self, occasion: Occasion) -> tuple[bytes, str]:
        """Return the body of the request and its type."""
        if self.format == "generic":
            return json.dumps(self._event(occasion)).encode(), "application/cloudevents+json"
        parts = ledger(occasion.folder)
        said = text(occasion)
        if self.format == "discord":
            return _discord(said, parts)
        told = _slack(said, parts) if self.format == "slack" else _teams(said, parts)
        return json.dumps(told).encode(), "application/json"

    def _event(self, occasion: Occasion) -> Document:
        return {
            "specversion": "1.0",
            "id": occasion.id,
            "source": f"holter/{occasion.folder.name}",
            "type": EVENT,
            "subject": occasion.rule,
            "time": moment(occasion.time),
            "datacontenttype": "application/json",
            "data": document(occasion),
        }


def _slack(message: str, parts: ChatLedger | None) -> Document:
    """Escape Slack's markup: a name in a training must not notify a whole channel."""
    escaped = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped + (f"\n```\n{parts.lines()}\n```" if parts else "")}


def _discord(message: str, parts: ChatLedger | None) -> tuple[bytes, str]:
    """Return the message, with the picture as a file of it."""
    line = f"\n{parts.sentence()}" if parts else ""
    told: Document = {
        "content": message[: _DISCORD_LENGTH - len(line)] + line,
        "allowed_mentions": {"parse": []},
    }
    if parts is None:
        return json.dumps(told).encode(), "application/json"
    told["attachments"] = [{"id": 0, "filename": _PICTURE, "description": parts.sentence()}]
    fields = (
        ('name="payload_json"', "application/json", json.dumps(told).encode()),
        (f'name="files[0]"; filename="{_PICTURE}"', "image/png", parts.picture()),
    )
    boundary = randomness.token_hex(16)
    body = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {name}\r\nContent-Type: {kind}\r\n\r\n".encode()
        + value
        + b"\r\n"
        for name, kind, value in fields
    )
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def _teams(message: str, parts: ChatLedger | None) -> Document:
    """Return an adaptive card; its text runs know no markup, so a name cannot become a link."""
    lines = message.splitlines() + ([parts.sentence()] if parts else [])
    runs = [{"type": "TextRun", "text": line, "weight": "default"} for line in lines]
    runs[0]["weight"] = "bolder"
    body: list[Document] = [{"type": "RichTextBlock", "inlines": [run]} for run in runs]
    if parts is not None:
        url = "data:image/png;base64," + base64.b64encode(parts.picture()).decode()
        body.append({"type": "Image", "url": url, "altText": parts.sentence()})
    card = {"type": "AdaptiveCard", "version": "1.4", "body": body}
    return {"type": "message", "attachments": [{"contentType": _CARD, "content": card}]}


def _check_public(url: str) -> None:
    """Refuse a public URL that contains a secret."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or _SECRET_HOSTS.search(parts.hostname or ""):
        raise BadAction(
            "webhook: url holds a secret, which would stand in the store; "
            "put the URL into an environment variable and write url_env=VARIABLE"
        )
