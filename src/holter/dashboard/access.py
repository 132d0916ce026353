"""What a token allows: everything, reading, or reading one job; and how often a client may guess tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Literal

from starlette.datastructures import QueryParams

if TYPE_CHECKING:
    from collections.abc import Callable

Right = Literal["all", "read", "job", "elsewhere"]
"""`elsewhere`: a right token of one job, for an address of something else."""

MOST_WRONG = 20
"""Different wrong tokens of one client within `WINDOW_S`; further requests are refused for the rest of it."""
WINDOW_S = 60.0
_MOST_CLIENTS = 1000
_STORE = 4
"""Digits of the number of a store, at most."""
_LENGTH = 18
"""Bytes of a derived token: 144 bits."""


class Access:
    """The tokens of one server: the secret itself, and those that are derived from it.

    Derived tokens need no list: the same secret gives the same ones. `scrypt` makes it slow to guess the
    secret from one of them, because the user may have chosen a short one.
    """

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._key = hashlib.scrypt(secret.encode(), salt=b"holter links", n=2**14, r=8, p=1, dklen=32)
        self.read = self._derived("read")

    def of_job(self, store: int, name: str) -> str:
        """Return the token that reads one job only; it names the job."""
        return f"{self._derived(f'job/{store}/{name}')}.{store}.{name}"

    def right(self, token: str, path: str, query: str) -> Right | None:
        """Return what a token allows for an address; None if it is wrong there."""
        if _same(token, self.secret):
            return "all"
        if _same(token, self.read):
            return "read"
        _, _, rest = token.partition(".")
        store, _, name = rest.partition(".")
        if not (store.isascii() and store.isdigit() and len(store) <= _STORE) or not _same(
            token, self.of_job(int(store), name)
        ):
            return None
        # Files of the app belong to every page.
        return "job" if path.startswith("/app/") or job_of(path, query) == (int(store), name) else "elsewhere"

    def _derived(self, what: str) -> str:
        digest = hmac.digest(self._key, what.encode(), "sha256")[:_LENGTH]
        return base64.urlsafe_b64encode(digest).decode()


class Guesses:
    """Counts the different wrong tokens of each client; one that an old page repeats counts once."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._wrong: dict[str, dict[bytes, float]] = {}

    def wait_s(self, client: str) -> float:
        """Return how long a client has to wait, seconds; 0 if it may ask."""
        since = self._now() - WINDOW_S
        wrong = {token: at for token, at in self._wrong.get(client, {}).items() if at > since}
        if len(wrong) < MOST_WRONG:
            return 0.0
        return max(sorted(wrong.values())[-MOST_WRONG] - since, 0.001)

    def wrong(self, client: str, token: str) -> None:
        """Note a wrong token."""
        now = self._now()
        known = self._wrong.pop(client, {})
        fresh = {one: at for one, at in known.items() if at > now - WINDOW_S}
        digest = hashlib.sha256(token.encode()).digest()
        self._wrong[client] = {digest: now, **fresh}
        while len(self._wrong) > _MOST_CLIENTS:
            self._wrong.pop(next(iter(self._wrong)))


def job_of(path: str, query: str) -> tuple[int, str] | None:
    """Return the store's number and the name of the one job of an address; None for other addresses."""
    given = QueryParams(query)  # as the routes read it
    store = given.get("store") or "0"
    if not (store.isascii() and store.isdigit() and len(store) <= _STORE):
        return None
    parts = path.split("/")
    name = ""
    if parts[:2] == ["", "jobs"] and len(parts) in (3, 4):
        name = parts[2]
    elif parts[:4] == ["", "api", "v1", "jobs"] and len(parts) >= 5:
        name = parts[4]
    elif path == "/events":
        name = given.get("job", "")
    return (int(store), name) if name else None


def new_secret() -> str:
    """Return a secret that nobody can guess."""
    return secrets.token_urlsafe(16)


def _same(given: str, right: str) -> bool:
    return secrets.compare_digest(given.encode(), right.encode())
