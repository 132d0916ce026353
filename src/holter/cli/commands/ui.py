"""`holter ui`: serve the jobs as live pages on this machine; the address holds a secret token."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import sys
from typing import TYPE_CHECKING

from holter.cli import options, output
from holter.cli.options import Refusal

if TYPE_CHECKING:
    from holter.dashboard.audit import Audit

ABOUT = "Show the jobs of one or several stores as live pages in the browser. Ctrl-C ends it."
EXAMPLES = """  holter ui
  holter ui holter-jobs s3://bucket/jobs --port 7071
  # reachable from other machines, encrypted:
  HOLTER_TOKEN=... holter ui --host 0.0.0.0 --certfile cert.pem --keyfile key.pem"""

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
        "--port",
        type=options.within(int, 0, 65_535),
        default=7070,
        help="port to listen on; 0 takes a free one; default: 7070",
    )
    parser.add_argument(
        "--embed",
        action="store_true",
        help="allow pages of this machine, such as a notebook, to show the dashboard in a frame",
    )
    parser.add_argument(
        "--certfile", metavar="FILE", help="serve over TLS with this certificate (PEM, with its chain)"
    )
    parser.add_argument("--keyfile", metavar="FILE", help="the certificate's private key (PEM)")
    parser.add_argument(
        "--public-host",
        metavar="NAME",
        action="append",
        default=[],
        help="name by which a proxy in front of it is asked; may be repeated",
    )
    parser.add_argument(
        "--audit", metavar="FILE", help="append a JSON line for each order that the pages or the API get"
    )
    given = parser.read(words)
    from holter.cli.recovery import recover_if_killed
    from holter.store.job import jobs, store_url

    named = [*([given.store] if given.store else []), *given.stores]
    stores = [store_url(url) for url in named or [None]]
    for url in stores:
        with contextlib.suppress(OSError, ValueError):  # the pages name the problem of a store
            for folder in jobs(url):
                recover_if_killed(folder)
    from holter.dashboard.access import Access, new_secret

    token = os.environ.get("HOLTER_TOKEN") or new_secret()
    if not re.fullmatch(r"[A-Za-z0-9._~-]+", token):
        raise Refusal(
            "HOLTER_TOKEN holds characters that an address cannot hold; valid: letters, digits, . _ ~ -"
        )
    encrypted = _check_certificate(given.certfile, given.keyfile)
    audit = _audit(given.audit)
    access = Access(token)
    listening = _listen(given.host, given.port)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else "localhost" if host == "0.0.0.0" else host  # noqa: S104
    base = f"{'https' if encrypted else 'http'}://{shown}:{port}/?token="
    if given.json:
        addresses = {"address": base + token, "read_only": base + access.read}
        output.write_json({"schema": 1, "stores": stores, **addresses})
    else:
        print(f"holter: {', '.join(stores)} at {base}{token}")
        print(f"holter: for readers, without orders: {base}{access.read}")
    sys.stdout.flush()
    if host not in LOOPBACK:
        output.warn("everyone who can reach this machine and has the token can see and stop all jobs")
        if not encrypted:
            output.warn("the token travels unencrypted; --certfile and --keyfile, or a proxy, encrypt it")
    import uvicorn

    from holter.dashboard.server import application

    hosts = (*LOOPBACK, *given.public_host) if host in LOOPBACK else ()
    config = uvicorn.Config(
        application(stores, access, hosts, audit, embed=given.embed),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=_MAX_CONNECTIONS,
        http="h11",  # this implementation limits the size of a request's head
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        ssl_certfile=given.certfile,
        ssl_keyfile=given.keyfile,
    )
    uvicorn.Server(config).run(sockets=[listening])
    return 0


def _check_certificate(certfile: str | None, keyfile: str | None) -> bool:
    """Return whether the server uses TLS; refuses files that cannot be used."""
    if certfile is None and keyfile is None:
        return False
    if certfile is None or keyfile is None:
        raise Refusal("--certfile and --keyfile belong together")
    try:
        # A key with a password would ask for it on the terminal; an empty answer fails instead.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password="")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Refusal(f"cannot use --certfile {certfile} with --keyfile {keyfile}: {why}") from None
    return True


def _audit(path: str | None) -> Audit:
    """Return the log of orders; refuses a file that cannot be written."""
    from holter.dashboard.audit import Audit

    try:
        # Closed when the server ends; others must not read who gives orders.
        file = None if path is None else open(path, "a", opener=_private, encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise Refusal(f"cannot write --audit {path}: {error.strerror}") from None
    return Audit(file, lambda text: output.warn(output.clean(text)))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


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
