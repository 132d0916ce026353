"""An object store whose answers get lost on their way: what was asked for is done, and done once."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import obstore.store
import pytest
from tests.gateway import Gateway
from tests.store.strategies import columns, numbered

from holter.store import job
from holter.store.job import JobFolder
from holter.store.objects import ObjectPlace
from holter.store.trial import Trial
from holter.store.writer import Writer


class Wire:
    """Passes connections on to a server; of the next `lose` puts of files, the answer is not passed back."""

    def __init__(self, port: int) -> None:
        self.lose = 0
        self._target = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._target) as server:
            lost = threading.Event()

            def back() -> None:
                try:
                    while data := server.recv(65_536):
                        if lost.is_set():
                            break
                        client.sendall(data)
                    client.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return

            answering = threading.Thread(target=back, daemon=True)
            answering.start()
            while data := client.recv(65_536):
                if self.lose and data.startswith(b"PUT"):
                    self.lose -= 1
                    lost.set()
                server.sendall(data)
            answering.join(5)


@pytest.fixture
def wire(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Wire]:
    """A wire to the server, over which all goes."""
    made = Wire(int(gateway.endpoint.rpartition(":")[2]))
    variables = {**gateway.variables, "XDG_CACHE_HOME": str(tmp_path)}
    for name, value in {**variables, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{made.port}"}.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.mark.parametrize("lose", [1, 3], ids=["sent again by the client", "given up by the client"])
def test_rows_are_there_once(wire: Wire, gateway: Gateway, lose: int) -> None:
    url = gateway.bucket()
    folder = job.create(url, "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    writer = Writer(folder, "n0")
    writer.append("scalars", columns(numbered(0, 5)))
    wire.lose = lose
    assert not writer.flush()
    assert wire.lose == 0
    assert writer.fault is not None
    writer.append("scalars", columns(numbered(5, 5)))
    assert writer.close(), writer.fault
    assert sorted(Trial(folder).table("scalars")["step"].tolist()) == list(range(10))
    assert writer.dropped == {}


def test_a_job_whose_creation_was_not_confirmed_is_one_s_own(wire: Wire, gateway: Gateway) -> None:
    url = gateway.bucket()
    wire.lose = 1
    folder = job.create(url, "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    assert wire.lose == 0
    assert folder.manifest()["status"] == "InProgress"
    with pytest.raises(job.JobExists):
        job.create(url, "a", command=["true"], interval_ms=500, rules=[], now_ns=1)


def test_a_document_is_not_replaced_by_half_of_it(wire: Wire, gateway: Gateway) -> None:
    folder = job.create(gateway.bucket(), "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    before = folder.manifest()
    gateway.pause()
    try:
        with pytest.raises(ConnectionError, match="cannot be reached"):
            folder.update(status="Stopping")
    finally:
        gateway.resume()
    assert folder.manifest() == before


def test_the_lock_of_one_that_died_is_removed() -> None:
    place = ObjectPlace(obstore.store.MemoryStore(), "", "memory:x").below("a")
    place.lock_stale_s = 0.3
    place.write(".lock", b"of one that died")
    folder = JobFolder(place, "a")
    folder.order(stop={})
    assert folder.control() == {"stop": {}}
    with pytest.raises(FileNotFoundError):
        place.read(".lock")
