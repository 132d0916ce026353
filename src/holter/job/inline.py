"""`holter.ui()`: the dashboard inside of a notebook, served by a process of its own."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from holter.schema.companions import own_command

if TYPE_CHECKING:
    from holter.job.part import JobPart

HEIGHT = 720
_END_S = 5.0


@dataclass(frozen=True)
class DashboardServer:
    """A running dashboard of one store."""

    process: subprocess.Popen[str]
    store: str
    address: str
    """With the token."""


_servers: dict[str, DashboardServer] = {}


class Inline:
    """A page of the dashboard, as a notebook shows it."""

    def __init__(self, address: str, height: int) -> None:
        self.address = address
        self.height = height

    def __repr__(self) -> str:
        return f"the dashboard is at {self.address}"

    def _repr_html_(self) -> str:
        """Return a frame, whose address has the host of the notebook's page, so that the cookie arrives."""
        name = f"holter-{abs(hash(self.address)):x}"
        rest = json.dumps(self.address.removeprefix(f"http://{urlsplit(self.address).netloc}"))
        port = urlsplit(self.address).port
        script = (
            f"(()=>{{const f=document.getElementById({json.dumps(name)}),h=location.hostname;"
            f"f.src='http://'+(h==='localhost'?h:'127.0.0.1')+':{port}'+{rest}}})()"
        )
        link = f'<a href="{self.address}" target="_blank" rel="noopener">Open it in a tab of its own</a>'
        return (
            f'<iframe id="{name}" title="holter" style="width:100%;height:{self.height}px;border:0"></iframe>'
            f"<script>{script}</script><p>{link}</p>"
        )


def ui(job: JobPart | str | None = None, *, store: str | None = None, height: int = HEIGHT) -> Inline:
    """Show the dashboard inside of a notebook: the pages of a job, or the list of jobs.

    A process of its own serves it on this machine until the kernel ends. The browser must run on this
    machine, too, or its port be forwarded.

    Args:
        job: A job, or what `holter.open` takes; by default the list.
        store: URL of the store; by default `HOLTER_STORE`, else `./holter-jobs`.
        height: Height of the frame, pixels.

    Raises:
        LookupError: The job does not exist.
        RuntimeError: The server did not start; the text says why.
    """
    from holter.store.job import store_url
    from holter.store.named import named

    name = ""
    if job is not None:
        folder = named(job, store) if isinstance(job, str) else job.folder
        name, store = folder.name, os.path.dirname(folder.url.rstrip("/")) or "."
    server = _server(store_url(store))
    return Inline(_page(server, name), height)


def address_of(url: str) -> str:
    """Return the address of a job's page in the dashboard that runs for its store; empty without one."""
    store, _, name = url.rstrip("/").rpartition("/")
    server = _servers.get(_key(store or "."))
    return _page(server, name) if server is not None and server.process.poll() is None else ""


def _page(server: DashboardServer, name: str) -> str:
    if not name:
        return server.address
    base, _, token = server.address.partition("/?")
    return f"{base}/jobs/{quote(name)}?{token}&store=0"


def _key(store: str) -> str:
    return store if "://" in store else os.path.abspath(store)


def _server(store: str) -> DashboardServer:
    known = _servers.get(_key(store))
    if known is not None and known.process.poll() is None:
        return known
    words = own_command("holter", "ui", "--store", store, "--port", "0", "--json", "--embed")
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt of the kernel is not for the server
    )
    text = ""
    for line in process.stdout or ():
        text += line
        if line.rstrip() == "}":
            break
    try:
        address = str(json.loads(text)["address"])
    except (ValueError, KeyError):
        process.kill()
        said = process.communicate()[1].strip().splitlines()
        raise RuntimeError(
            f"the dashboard did not start: {said[-1] if said else 'it said nothing'}"
        ) from None
    if process.stderr is not None:
        process.stderr.close()
    found = _servers[_key(store)] = DashboardServer(process, store, address)
    if len(_servers) == 1:
        atexit.register(_end)
    return found


def _end() -> None:
    """End the servers with the kernel."""
    for server in _servers.values():
        server.process.terminate()
    for server in _servers.values():
        try:
            server.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            server.process.kill()
