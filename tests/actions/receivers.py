"""Real receivers on the loopback: an SMTP server with TLS and AUTH, and an HTTP server that can fail."""

from __future__ import annotations

import base64
import contextlib
import shutil
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for localhost; returns it and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True)
    return cert, key


@dataclass
class Mailbox:
    """What an SMTP server took, and how it is to behave."""

    port: int = 0
    security: str = "none"
    user: str = ""
    password: str = ""
    refuse: list[bytes] = field(default_factory=list)
    """Answers to the next messages, in place of taking them."""
    mails: list[tuple[str, list[str], str]] = field(default_factory=list)
    """Sender, recipients, text."""
    encrypted: list[bool] = field(default_factory=list)
    context: ssl.SSLContext | None = None


class _Smtp(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        box: Mailbox = self.server.box  # type: ignore[attr-defined]
        self.safe = box.security == "tls"
        self.known = not box.user
        with contextlib.suppress(OSError):
            if self.safe:
                self._encrypt(box)
            self._say(b"220 localhost ready")
            self._talk(box)
        self.connection.close()

    def _encrypt(self, box: Mailbox) -> None:
        self.connection = box.context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.safe = True

    def _say(self, line: bytes) -> None:
        self.wfile.write(line + b"\r\n")

    def _talk(self, box: Mailbox) -> None:
        sender, recipients = "", []
        while line := self.rfile.readline().strip():
            word, _, rest = line.decode().partition(" ")
            word = word.upper()
            if word in ("EHLO", "HELO"):
                offers = ["localhost"] + (
                    ["STARTTLS"] if box.security == "starttls" and not self.safe else []
                )
                offers += ["AUTH PLAIN"] if box.user else []
                for i, offer in enumerate(offers):
                    self._say(f"250{'-' if i < len(offers) - 1 else ' '}{offer}".encode())
            elif word == "STARTTLS":
                self._say(b"220 go ahead")
                self._encrypt(box)
            elif word == "AUTH":
                told = base64.b64decode(rest.split()[1]).decode().split("\0")
                self.known = told[1:] == [box.user, box.password]
                # A server that repeats what it was told, as some do in their errors.
                self._say(b"235 welcome" if self.known else f"535 not {rest} for {told[2]}".encode())
            elif word == "MAIL":
                sender = rest[5:].strip("<>").split(">")[0]
                self._say(b"250 fine" if self.known else b"530 log in first")
            elif word == "RCPT":
                recipients.append(rest[3:].strip("<>"))
                self._say(b"250 fine")
            elif word == "DATA":
                if box.refuse:
                    self._say(box.refuse.pop(0))
                    continue
                self._say(b"354 go on")
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line)
                box.mails.append((sender, recipients, b"".join(lines).decode()))
                box.encrypted.append(self.safe)
                sender, recipients = "", []
                self._say(b"250 taken")
            elif word == "QUIT":
                self._say(b"221 bye")
                return
            else:
                self._say(b"250 fine")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that does not trust us hangs up in the middle: that is what some tests are about."""


@contextlib.contextmanager
def smtp(folder: Path, security: str = "none", user: str = "", password: str = "") -> Iterator[Mailbox]:
    """Run an SMTP server."""
    box = Mailbox(security=security, user=user, password=password)
    if security != "none":
        box.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        box.context.load_cert_chain(*certificate(folder))
    with _Server(("127.0.0.1", 0), _Smtp) as server:
        server.box = box
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield box
        server.shutdown()
        thread.join()


@dataclass
class Hook:
    """What an HTTP server was sent, and what it answers."""

    url: str = ""
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    """The next answers; 200 when there is none."""
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    """Method, path, headers by their names in lower case, body."""


class _Http(BaseHTTPRequestHandler):
    def _take(self) -> None:
        hook: Hook = self.server.hook  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        hook.requests.append((self.command, self.path, headers, body))
        code, more, said = hook.answers.pop(0) if hook.answers else (200, {}, b"ok")
        self.send_response(code)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_POST = do_PUT = do_GET = _take

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextlib.contextmanager
def http() -> Iterator[Hook]:
    """Run an HTTP server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Http) as server:
        server.hook = Hook(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server.hook
        server.shutdown()
        thread.join()
