"""`holter ui`: the jobs as live pages, on this machine, to who has the address with the token."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket

from holter.cli import options
from holter.cli.options import Refusal

ABOUT = "Show the jobs of one store or several as live pages. Ends with Ctrl-C."
EXAMPLES = """  holter ui
  holter ui holter-jobs s3://bucket/jobs --port 7071
  # from other machines; the token travels unencrypted:
  HOLTER_TOKEN=... holter ui --host 0.0.0.0"""

_MOST_CONNECTIONS = 500
_MOST_HEAD = 65_536
_PATIENCE_MS = 60_000
"""A connection ends when its other end takes nothing of what is sent for so long."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main(words: list[str]) -> int:
    """Run `holter ui`."""
    parser = options.Parser("ui", ABOUT, EXAMPLES)
    parser.add_argument(
        "stores", metavar="STORE", nargs="*", help="default: $HOLTER_STORE, else ./holter-jobs"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; default 127.0.0.1")
    parser.add_argument("--port", type=int, default=7070, help="default 7070; 0 takes a free one")
    given = parser.read(words)
    if not 0 <= given.port <= 65535:
        raise Refusal(f"--port {given.port} is out of range; valid: 0 to 65535")
    from holter.cli.commands.recover import look_for_spool
    from holter.store.job import jobs, store_url

    stores = [store_url(url) for url in given.stores or [None]]
    for url in stores:
        with contextlib.suppress(OSError, ValueError):  # the pages say what is wrong with a store
            for folder in jobs(url):
                look_for_spool(folder)
    token = os.environ.get("HOLTER_TOKEN") or secrets.token_urlsafe(16)
    if not re.fullmatch(r"[A-Za-z0-9._~-]+", token):
        raise Refusal("HOLTER_TOKEN has signs that no address may hold; valid: letters, digits and . _ ~ -")
    listening = _listen(given.host, given.port)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else "localhost" if host == "0.0.0.0" else host  # noqa: S104
    print(f"holter: {', '.join(stores)} at http://{shown}:{port}/?token={token}", flush=True)
    if host not in LOOPBACK:
        options.warn("whoever can reach this machine and has the token sees all jobs and can stop them")
    import uvicorn

    from holter.dashboard.server import application

    hosts = LOOPBACK if host in LOOPBACK else ()
    config = uvicorn.Config(
        application(stores, token, hosts),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=_MOST_CONNECTIONS,
        http="h11",  # the one that bounds how long a request's head may be
        h11_max_incomplete_event_size=_MOST_HEAD,
    )
    uvicorn.Server(config).run(sockets=[listening])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections take it over from who listens
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _PATIENCE_MS)
    except OSError as error:
        hint = "; --port 0 takes a free one" if port else ""
        raise Refusal(f"cannot listen on {host}:{port}: {error.strerror or error}{hint}") from None
    return made
