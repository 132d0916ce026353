"""Access control: checks the token, the host name and the origin of each request, and logs orders."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

from holter.dashboard.access import Access, Guesses

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from holter.dashboard.access import Right
    from holter.dashboard.audit import Audit

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
    """Middleware that refuses requests without a token, for another host, or from another site.

    A token comes once in the URL that `holter ui` prints, or as `Authorization: Bearer`; then it is in a
    cookie that scripts cannot read and that requests of other sites do not carry. The host name is checked
    because another site could let a name of its own point at this machine (DNS rebinding).
    """

    def __init__(
        self, app: ASGIApp, access: Access, hosts: Collection[str], audit: Audit, *, embed: bool = False
    ) -> None:
        self.app = app
        self._headers = dict(_HEADERS)
        if embed:
            policy = POLICY.replace("frame-ancestors 'none'", _FRAMED)
            self._headers["content-security-policy"] = policy
        self.access = access
        self.hosts = {host.lower() for host in hosts}
        self._audit = audit
        self._guesses = Guesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to the application and add the security headers to the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if (answer := self._answer(scope, headers)) is not None:
            self._audit.note(scope, headers, answer.status_code)
            await answer(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = MutableHeaders(scope=message)
                ours.update(self._headers)
                ours.setdefault("cache-control", "no-store")
                self._audit.note(scope, headers, message["status"])
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
        client = scope["client"][0] if scope.get("client") else ""
        if wait := self._guesses.wait_s(client):
            answer = self._refuse("Too many wrong tokens came from this address. Try again later.", 429)
            answer.headers["retry-after"] = f"{math.ceil(wait)}"
            return answer
        given = dict(part.partition("=")[::2] for part in query).get("token")
        cookie = f"{COOKIE}_{port}"
        if given is not None and scope["method"] == "GET" and self._right(given, scope, client):
            moved = RedirectResponse(_here(scope["path"], query), 303)
            encrypted = scope["scheme"] == "https"
            moved.set_cookie(cookie, given, httponly=True, samesite="strict", path="/", secure=encrypted)
            return moved
        bearer = self._right(headers.get("authorization", "").removeprefix("Bearer ").strip(), scope, client)
        right = bearer or self._right(Request(scope).cookies.get(cookie, ""), scope, client)
        if right is None:
            text = "The token is missing or wrong. Open the address that `holter ui` printed when it started."
            return self._refuse(text, 401)
        if right == "elsewhere":
            return self._refuse("this link shows one job only", 403)
        scope["holter.right"] = right
        if scope["method"] not in ("GET", "HEAD"):
            # A proxy may add the bearer to requests of a browser, so an origin that is told always counts.
            if ("origin" in headers or not bearer) and not _own(headers):
                return self._refuse("orders are taken from this dashboard's own pages only", 403)
            if right != "all":
                return self._refuse("this link only reads; it gives no orders", 403)
        return None

    def _right(self, given: str, scope: Scope, client: str) -> Right | None:
        """Return what a token allows here; a wrong one counts against the client."""
        if not given:
            return None
        right = self.access.right(given, scope["path"], scope["query_string"].decode("latin-1"))
        if right is None:
            self._guesses.wrong(client, given)
        return right

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
