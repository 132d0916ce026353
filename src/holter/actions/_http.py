"""Send one HTTP request: checked TLS, proxies from the environment, no redirects."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holter.actions import ActionFailed, BadAction, TryAgain

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATER = (408, 425, 429)
_ANSWER = 300
_LONGEST_WAIT_S = 60.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they would carry the message and its secrets to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return no new request."""


_OPENER = urllib.request.build_opener(_NoRedirect)


def check_url(url: str, who: str) -> str:
    """Return a valid URL; raises `BadAction` without the URL in its text, because it may be secret."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for an invalid port
    except ValueError:
        raise BadAction(f"{who} holds no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in url):
        raise BadAction(f"{who} holds no URL; valid: https://host/path or http://host/path")
    return url


def send(url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, method: str = "POST") -> str:
    """Send a request; returns the status of the answer.

    Raises:
        TryAgain: There is no answer, or it reports a temporary error.
        ActionFailed: The server refuses the request.
    """
    try:
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)  # noqa: S310 - see check_url
        with _OPENER.open(request, timeout=timeout_s) as answer:
            return f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        with error:
            reply = error.read(_ANSWER).decode(errors="replace").strip()
        text = f"HTTP {error.code}" + (f": {' '.join(reply.split())}" if reply else "")
        if error.code >= 500 or error.code in _LATER:
            raise TryAgain(text, _seconds(error.headers.get("Retry-After"))) from None
        raise ActionFailed(text) from None
    except (urllib.error.URLError, TimeoutError, OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise TryAgain(f"{type(why).__name__}: {why}") from None
    except ValueError as error:
        raise ActionFailed(f"not sent: {error}") from None


def _seconds(given: str | None) -> float | None:
    """Return the seconds of `Retry-After`, if it is a number."""
    if given is None or not given.strip().isdigit():
        return None
    return min(float(given), _LONGEST_WAIT_S)
