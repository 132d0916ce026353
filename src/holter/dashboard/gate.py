"""Access control: checks the token, the host name and the origin of each request."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "holter_token"
"""Prefix of the cookie's name; the port follows. A browser sends the cookies of a host to all its ports, and
with the port in the name several servers, or tunnels to them, do not overwrite each other's token."""
_SHOWN = 100
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Allows only resources of this server: names that come from a job are shown, never executed."""
_FRAMED = "frame-ancestors http://localhost:* http://127.0.0.1:*"
"""Pages that may show the dashboard in a frame, where that is asked for: those of this machine."""
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Gate:
    """Middleware that refuses requests without the token, for another host, or from another site.

    The token comes once in the URL that `holter ui` prints, or as `Authorization: Bearer`; then it is in a
    cookie that scripts cannot read and that requests of other sites do not carry. The host name is checked
    because another site could let a name of its own point at this machine (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str], *, embed: bool = False) -> None:
        self.app = app
        self._headers = dict(_HEADERS)
        if embed:
            policy = POLICY.replace("frame-ancestors 'none'", _FRAMED)
            self._headers["content-security-policy"] = policy
        self.token = token
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to the application and add the security headers to the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if (answer := self._answer(scope, Headers(scope=scope))) is not None:
            await answer(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = MutableHeaders(scope=message)
                ours.update(self._headers)
                ours.setdefault("cache-control", "no-store")
            await send(message)

        await self.app(scope, receive, with_headers)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse a request, or move its token from the address into a cookie; None lets it pass."""
        try:
            host, port = _asked_as(headers.get("host", ""))
        except ValueError:
            shown = headers["host"][:_SHOWN]
            text = f"the Host header is {shown!r}; valid: a name or an address, and a port from 0 to 65535"
            return self._refuse(text, 400)
        if self.hosts and host not in self.hosts:
            return self._refuse(f"this is not {host[:_SHOWN]}", 421)
        query = scope["query_string"].decode("latin-1").split("&")
        given = dict(part.partition("=")[::2] for part in query).get("token")
        cookie = f"{COOKIE}_{port}"
        if given is not None and scope["method"] == "GET" and self._right(given):
            answer = RedirectResponse(_here(scope["path"], query), 303)
            answer.set_cookie(cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        known = Request(scope).cookies.get(cookie, "")
        bearer = self._right(headers.get("authorization", "").removeprefix("Bearer ").strip())
        if not (bearer or self._right(known)):
            text = "The token is missing or wrong. Open the address that `holter ui` printed when it started."
            return self._refuse(text, 401)
        if scope["method"] not in ("GET", "HEAD") and not bearer and not _own(headers):
            return self._refuse("orders are taken from this dashboard's own pages only", 403)
        return None

    def _right(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())

    @staticmethod
    def _refuse(text: str, code: int) -> PlainTextResponse:
        return PlainTextResponse(f"{text}\n", code, headers={**_HEADERS, "cache-control": "no-store"})


def _asked_as(given: str) -> tuple[str, int]:
    """Return the name and the port under which a request asks; raises `ValueError` for what is neither."""
    parts = urlsplit(f"//{given}")
    return (parts.hostname or "").lower(), parts.port or 80


def _here(path: str, query: Sequence[str]) -> str:
    """Return the same address without the token; it never names another host, as `//host/` would."""
    rest = "&".join(part for part in query if part.partition("=")[0] != "token")
    return "/" + quote(path.lstrip("/"), errors="replace") + (f"?{rest}" if rest else "")


def _own(headers: Headers) -> bool:
    """Return whether a request comes from a page of this server."""
    try:
        origin = urlsplit(headers.get("origin", "")).netloc
    except ValueError:
        return False
    return bool(origin) and origin == headers.get("host")
