"""Ports for servers that are told theirs before they start, and the wait until they answer there."""

from __future__ import annotations

import random
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""From where the kernel takes the port of each connection that is made."""


def free_port() -> int:
    """Return a port of this machine where nobody listens, and which no connection is given meanwhile."""
    low = int(RANGE.read_text().split()[0])
    for port in random.sample(range(low // 3, low), 100):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port of {low // 3} to {low} is free")


def wait_until_it_answers(url: str, process: subprocess.Popen[bytes], limit_s: float, folder: Path) -> None:
    """Return once a server answers any request; otherwise raise `RuntimeError`, which names its folder."""
    deadline = time.monotonic() + limit_s
    while not _answers(url):
        if time.monotonic() > deadline or process.poll() is not None:
            raise RuntimeError(f"no answer of {url} within {limit_s:.0f} s; see {folder}")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
