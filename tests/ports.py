"""Ports for servers that are told theirs before they start."""

from __future__ import annotations

import random
import socket
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
