"""Ask the dashboard's application itself, without a server between: whatever bytes a request holds."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, NamedTuple
from urllib.parse import urlencode

PATIENCE_S = 120
_CLIENTS = itertools.count()


class Answered(NamedTuple):
    """What the application answered."""

    status: int
    body: bytes
    headers: dict[str, str]


def asked(query: list[tuple[str, str]]) -> bytes:
    """Return parameters as an address holds them."""
    return urlencode(query, errors="replace").encode()


def ask(
    app: Any,
    path: bytes | str,
    query: bytes = b"",
    *,
    method: str = "GET",
    headers: list[tuple[bytes, bytes]] | None = None,
    body: bytes = b"",
    token: bytes | None = None,
    client: str = "",
    scheme: str = "http",
) -> Answered:
    """Ask once, as a server that speaks ASGI does; what the application raises is raised here.

    The right token is sent along, unless another one is given, or an empty one for none. Each call comes from
    another client unless it is named: a client that guesses tokens is refused after a while.
    """
    token = b"secret-token" if token is None else token
    raw = path.encode() if isinstance(path, str) else path
    given = [(b"host", b"localhost")] if headers is None else headers
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": raw.decode("utf-8", "replace"),
        "raw_path": raw,
        "root_path": "",
        "query_string": query,
        "headers": [*given, *([(b"authorization", b"Bearer " + token)] if token else [])],
        "client": (client or f"client-{next(_CLIENTS)}", 50000),
        "server": ("127.0.0.1", 8000),
    }
    status, heads, found = 0, {}, bytearray()

    async def run() -> None:
        asked = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if asked.is_set():  # a request has one body; after it there is only going away
                await asyncio.sleep(PATIENCE_S)
                return {"type": "http.disconnect"}
            asked.set()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status, heads
            if message["type"] == "http.response.start":
                status = message["status"]
                heads = {
                    name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]
                }
            else:
                found.extend(message.get("body", b""))
                if heads.get("content-type", "").startswith("text/event-stream"):
                    raise asyncio.CancelledError  # it never ends by itself

        try:
            await asyncio.wait_for(app(scope, receive, send), PATIENCE_S)
        except asyncio.CancelledError:
            if not heads:
                raise

    asyncio.run(run())
    return Answered(status, bytes(found), heads)
