"""An object store that refuses, delays or denies requests: no row is lost or doubled, the fault is named."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.gateway import Gateway
from tests.store.strategies import columns, numbered

from holter.store import index, job, writer
from holter.store.document_types import IndexEntry
from holter.store.trial import Trial
from holter.store.writer import Writer

ANSWERS = {
    "slow down": (503, "SlowDown", "Please reduce your request rate."),
    "expired": (403, "ExpiredToken", "The provided token has expired."),
}


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a gateway, signatures and all; `fault` says what happens instead, if anything."""

    daemon_threads = True

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = ("127.0.0.1", int(gateway.endpoint.rpartition(":")[2]))
        self.fault: Callable[[str], str] = lambda method: ""
        self.refused = 0
        self.requests = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests += 1
        fault = self.server.fault(self.command)
        if fault:
            self.server.refused += 1
            if fault == "silent":
                time.sleep(1)
                self.close_connection = True
                return
            code, name, text = ANSWERS[fault]
            answer = f"<Error><Code>{name}</Code><Message>{text}</Message></Error>".encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer if self.command != "HEAD" else b"")
            return
        connection = http.client.HTTPConnection(*self.server.target, timeout=60)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        got = connection.getresponse()
        data = got.read()
        self.send_response(got.status)
        for name, value in got.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = got.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(data)
        connection.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def proxy(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proxy]:
    """A proxy to the server, over which all goes."""
    made = Proxy(gateway)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    variables = {**gateway.variables, "XDG_CACHE_HOME": str(tmp_path)}
    for name, value in {
        **variables,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{made.server_address[1]}",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(writer, "RETRY_S", 0.0)
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def steps(folder: job.JobFolder) -> list[int]:
    found: list[int] = sorted(Trial(folder).table("scalars")["step"].tolist())
    return found


@pytest.mark.parametrize(("fault", "share"), [("slow down", 0.4), ("silent", 0.05)])
def test_a_storm_of_faults_loses_and_doubles_nothing(
    proxy: Proxy, gateway: Gateway, fault: str, share: float
) -> None:
    folder = job.create(gateway.bucket(), "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    chance = random.Random(7)
    proxy.fault = lambda method: fault if chance.random() < share else ""
    made = Writer(folder, "n0")
    for at in range(0, 100, 10):
        made.append("scalars", columns(numbered(at, 10)))
        made.flush()
    assert proxy.refused > 0
    proxy.fault = lambda method: ""
    assert made.close(), made.fault
    assert made.dropped == {}
    assert steps(folder) == list(range(100))


def test_an_expired_token_is_named_and_rows_wait_for_a_new_one(proxy: Proxy, gateway: Gateway) -> None:
    folder = job.create(gateway.bucket(), "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    made = Writer(folder, "n0")
    proxy.fault = lambda method: "expired"
    began = time.monotonic()
    for at in range(0, 50, 10):
        made.append("scalars", columns(numbered(at, 10)))
    assert time.monotonic() - began < 30
    assert not made.flush()
    assert made.fault is not None
    assert "xpired" in made.fault
    assert made.waiting == 50
    proxy.fault = lambda method: ""
    assert made.close(), made.fault
    assert made.dropped == {}
    assert steps(folder) == list(range(50))


def test_the_index_of_a_bucket_needs_few_requests(
    proxy: Proxy, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "PACK_AT", 20)
    store = gateway.bucket()
    for at in range(45):
        entry: IndexEntry = {
            "id": f"{at:016x}",
            "name": f"job-{at}",
            "status": "Completed",
            "owner": None,
            "created": at,
            "start": at,
            "end": at,
            "price": None,
            "verdict": None,
            "usage": None,
        }
        index.add(store, entry)
    before = proxy.requests
    assert len(index.entries(store)) == 45
    assert proxy.requests - before <= 1 + 2 + 5, "a listing, two packed files, five single ones"
