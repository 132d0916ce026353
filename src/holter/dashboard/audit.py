"""Notes each order that a server was asked for: when, from where, about which job, and the answer."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

from holter.dashboard.access import job_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import Headers

_USERS = ("x-forwarded-user", "x-forwarded-email", "x-auth-request-user", "x-auth-request-email")
"""Headers in which a proxy that signs users in names them."""
_MOST = 200
"""Characters of a name that a request gives."""


class Audit:
    """Writes one JSON line for each order, refused ones too, and says each to the terminal."""

    def __init__(self, file: TextIO | None = None, tell: Callable[[str], None] | None = None) -> None:
        self._file = file
        self._tell = tell
        self._lock = threading.Lock()

    def note(self, scope: Any, headers: Headers, status: int) -> None:
        """Note an answered request, if it was an order."""
        if scope["method"] in ("GET", "HEAD"):
            return
        asked = job_of(scope["path"], scope["query_string"].decode("latin-1"))
        entry = {
            "time": time.time_ns(),
            "client": scope["client"][0] if scope.get("client") else None,
            "user": next((headers[name][:_MOST] for name in _USERS if name in headers), None),
            "right": scope.get("holter.right"),
            "job": asked[1][:_MOST] if asked else None,
            "store": asked[0] if asked else None,
            "order": scope["path"].rpartition("/")[2][:_MOST],
            "status": status,
        }
        try:
            with self._lock:
                if self._file is not None:
                    self._file.write(json.dumps(entry) + "\n")
                    self._file.flush()
        except OSError as error:
            if self._tell is not None:
                self._tell(f"the next order is missing in the audit log: {error}")
        if self._tell is not None:
            who = entry["user"] or entry["client"] or "unknown"
            done = "taken" if status == 200 else f"refused ({status})"
            self._tell(f"order {entry['order']} of job {entry['job']} from {who}: {done}")
