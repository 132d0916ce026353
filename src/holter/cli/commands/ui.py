"""`holter ui`: serve the jobs as live pages on this machine; the address holds a secret token."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import sys

from holter.cli import options, output
from holter.cli.options import Refusal

ABOUT = "Show the jobs of one or several stores as live pages in the browser. Ctrl-C ends it."
EXAMPLES = """  holter ui
  holter ui holter-jobs s3://bucket/jobs --port 7071
  # reachable from other machines; the token travels unencrypted:
  HOLTER_TOKEN=... holter ui --host 0.0.0.0"""

_MAX_CONNECTIONS = 500
_MAX_HEAD_BYTES = 65_536
_SEND_TIMEOUT_MS = 60_000
"""A connection is closed when the browser reads nothing for this long."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main(words: list[str]) -> int:
    """Run `holter ui`."""
    parser = options.Parser("ui", ABOUT, EXAMPLES, "--store", "--json")
    parser.add_argument(
        "stores", metavar="STORE", nargs="*", help="more folders or URLs that hold jobs, as --store"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; default: 127.0.0.1")
    parser.add_argument(
        "--port", type=int, default=7070, help="port to listen on; 0 takes a free one; default: 7070"
    )
    parser.add_argument(
        "--embed",
        action="store_true",
        help="allow pages of this machine, such as a notebook, to show the dashboard in a frame",
    )
    given = parser.read(words)
    if not 0 <= given.port <= 65535:
        raise Refusal(f"--port {given.port} is out of range; valid: 0 to 65535")
    from holter.cli.recovery import recover_if_killed
    from holter.store.job import jobs, store_url

    named = [*([given.store] if given.store else []), *given.stores]
    stores = [store_url(url) for url in named or [None]]
    for url in stores:
        with contextlib.suppress(OSError, ValueError):  # the pages name the problem of a store
            for folder in jobs(url):
                recover_if_killed(folder)
    token = os.environ.get("HOLTER_TOKEN") or secrets.token_urlsafe(16)
    if not re.fullmatch(r"[A-Za-z0-9._~-]+", token):
        raise Refusal(
            "HOLTER_TOKEN holds characters that an address cannot hold; valid: letters, digits, . _ ~ -"
        )
    listening = _listen(given.host, given.port)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else "localhost" if host == "0.0.0.0" else host  # noqa: S104
    address = f"http://{shown}:{port}/?token={token}"
    if given.json:
        output.write_json({"schema": 1, "stores": stores, "address": address})
    else:
        print(f"holter: {', '.join(stores)} at {address}")
    sys.stdout.flush()
    if host not in LOOPBACK:
        output.warn("everyone who can reach this machine and has the token can see and stop all jobs")
    import uvicorn

    from holter.dashboard.server import application

    hosts = LOOPBACK if host in LOOPBACK else ()
    config = uvicorn.Config(
        application(stores, token, hosts, embed=given.embed),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=_MAX_CONNECTIONS,
        http="h11",  # this implementation limits the size of a request's head
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
    )
    uvicorn.Server(config).run(sockets=[listening])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SEND_TIMEOUT_MS)
    except OSError as error:
        hint = "; --port 0 takes a free one" if port else ""
        raise Refusal(f"cannot listen on {host}:{port}: {error.strerror or error}{hint}") from None
    return made
