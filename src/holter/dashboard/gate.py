"""Who may ask: only who has the token, only under a name of this machine, only from our own pages."""

from __future__ import annotations

import secrets
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "holter_token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing from anywhere else, and no script but ours: what a job's names say is shown, never executed."""
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Gate:
    """Stands before the application.

    The token comes once in the URL that `holter ui` prints, or as `Authorization: Bearer`; then it lives in
    a cookie that scripts cannot read and other sites' requests do not carry. The host's name is checked, for
    a page elsewhere could point a name of its own at this machine.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self.app = app
        self.token = token
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in place of the application, or let the request through with our headers on the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        url = URL(scope=scope)
        host = (urlsplit(f"//{headers.get('host', '')}").hostname or "").lower()
        if self.hosts and host not in self.hosts:
            await self._refuse(f"this is not {host}", 421)(scope, receive, send)
            return
        given = dict(part.partition("=")[::2] for part in url.query.split("&")).get("token")
        if given is not None and scope["method"] == "GET" and self._right(given):
            answer = RedirectResponse(
                str(url.remove_query_params("token").replace(scheme="", netloc="")), 303
            )
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict", path="/")
            await answer(scope, receive, send)
            return
        cookies = SimpleCookie(headers.get("cookie", ""))
        known = cookies[COOKIE].value if COOKIE in cookies else ""
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not (self._right(known) or self._right(bearer)):
            text = "The token is missing or wrong. Open the address that `holter ui` printed when it started."
            await self._refuse(text, 401)(scope, receive, send)
            return
        if scope["method"] not in ("GET", "HEAD") and not self._right(bearer) and not _own(headers):
            await self._refuse("orders are taken from this dashboard's own pages only", 403)(
                scope, receive, send
            )
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = MutableHeaders(scope=message)
                ours.update(_HEADERS)
                ours.setdefault("cache-control", "no-store")
            await send(message)

        await self.app(scope, receive, with_headers)

    def _right(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())

    @staticmethod
    def _refuse(text: str, code: int) -> PlainTextResponse:
        return PlainTextResponse(f"{text}\n", code, headers={**_HEADERS, "cache-control": "no-store"})


def _own(headers: Headers) -> bool:
    """Whether a request comes from one of our pages."""
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")
