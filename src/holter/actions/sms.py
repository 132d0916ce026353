"""Send a text message through any HTTP gateway."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from urllib.parse import urlencode

from holter.actions import Action, BadAction, Limits, Occasion, Secrets, parameter
from holter.actions._http import check_url, send
from holter.actions._words import short

_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sms(Action):
    """Text the finding; the gateway is in SMS_GATEWAY_URL, its token in SMS_GATEWAY_TOKEN."""

    description = "sends a text message through an HTTP gateway, SMS_GATEWAY_URL and SMS_GATEWAY_TOKEN"
    limits = Limits(dedupe_s=900, max_per_run=10)

    to: tuple[str, ...] = parameter((), aliases=("phone_number",))
    """Numbers, as in +491701234567."""
    url_env: str = parameter("SMS_GATEWAY_URL")
    """The variable that holds the gateway's URL."""
    token_env: str = parameter("SMS_GATEWAY_TOKEN")
    """The variable that holds the gateway's token, sent as `Authorization: Bearer`."""
    format: str = parameter("json", choices=("json", "form"))
    """The encoding of the gateway's fields."""
    to_field: str = parameter("to")
    """The gateway's field for the number."""
    text_field: str = parameter("text")
    """The gateway's field for the text."""
    timeout_s: float = parameter(5.0, above=0, high=120, unit="s")
    """The longest wait for the gateway."""

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        if not self.to:
            raise BadAction("sms: to is missing; write sms:to=+491701234567")
        for number in self.to:
            check_number(number, "sms: to")

    def check(self, secrets: Secrets) -> None:
        """Refuse to start without a gateway."""
        check_url(secrets.need(self.url_env, "sms"), f"sms: {self.url_env}")
        secrets.need(self.token_env, "sms")

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Send a message for each number to the gateway."""
        url, token = secrets.need(self.url_env, "sms"), secrets.need(self.token_env, "sms")
        kind = "application/json" if self.format == "json" else "application/x-www-form-urlencoded"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Idempotency-Key": occasion.id}
        answer = ""
        for i, number in enumerate(self.to):
            fields = {self.to_field: number, self.text_field: short(occasion)}
            body = json.dumps(fields) if self.format == "json" else urlencode(fields)
            headers["Idempotency-Key"] = f"{occasion.id}-{i}"
            answer = send(url, body.encode(), headers, timeout_s=self.timeout_s)
        return f"texted to {', '.join(self.to)} ({answer})"


def check_number(number: str, who: str) -> None:
    """Raise `BadAction` for a number that is not in E.164 format."""
    if _NUMBER.fullmatch(number) is None:
        raise BadAction(
            f"{who}={number[:40]!r} is no telephone number; valid: + and 7 to 15 digits, the first not 0, "
            "as in +491701234567"
        )
