"""A real server of Azure's blob storage on loopback: Microsoft's emulator Azurite, in memory."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import shutil
import subprocess
import urllib.request
from pathlib import Path

from tests.ports import free_port, wait_until_it_answers

PROGRAM = "azurite-blob"
WHERE_FROM = "npm install --global azurite@3.37.0"
ACCOUNT = "devstoreaccount1"
# The account of every Azurite; it is in its documentation.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
MISSING = shutil.which(PROGRAM) is None
_VERSION = "2023-11-03"
_READY_S = 60.0


class Azurite:
    """The server; `start` until `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = free_port()
        self._containers = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The address of the account."""
        return f"http://127.0.0.1:{self._port}/{ACCOUNT}"

    @property
    def variables(self) -> dict[str, str]:
        """What a user puts into the environment to reach it."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
        }

    def start(self) -> Azurite:
        """Start it; returns once it answers."""
        words = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                [PROGRAM, "--blobPort", str(self._port), *words],
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until_it_answers(self.endpoint, self._process, _READY_S, self.folder)
        return self

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def container(self) -> str:
        """Make a container; returns its URL. The client makes none, so the request is signed here."""
        self._containers += 1
        name = f"jobs-{self._containers}"
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": _VERSION}
        named = "".join(f"{key}:{value}\n" for key, value in headers.items())
        # The emulator has the account in the path, and so twice in what is signed.
        text = "PUT" + "\n" * 12 + f"{named}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        url = f"{self.endpoint}/{name}?restype=container"
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=10):
            return f"az://{name}"
