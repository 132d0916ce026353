"""Starts `holter ui` as a process and asks it over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

from tests.cli.conftest import SOURCE

BEARER = {"Authorization": "Bearer secret-token"}
PATIENCE_S = 90
"""How long a test waits for an event; machines that run tests may be slow or busy."""


class Server:
    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host, self.port = parts.hostname, parts.port
        self.own = f"{parts.hostname}:{parts.port}"

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)

    def ask(self, path, method="GET", body=None, **headers):
        with closing(self.connection()) as connection:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())

    def get(self, path):
        return self.ask(path, **BEARER)

    def json(self, path):
        status, text, _ = self.get(path)
        return status, json.loads(text)


def until(true):
    """Wait until a condition holds, however slow the machine is."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(server) -> bool:
    try:
        return bool(server.ask("/"))
    except OSError:
        return False


@contextmanager
def serving(*stores, source=SOURCE):
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
    env |= {"PYTHONPATH": str(source), "HOLTER_TOKEN": "secret-token"}
    command = [sys.executable, "-m", "holter", "ui", *map(str, stores), "--port", "0"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = process.stdout.readline()
        address = re.search(r"http://\S+", line)
        assert address, line + process.stdout.read()
        server = Server(address[0])
        until(lambda: answers(server))
        yield server
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        process.stdout.close()
