"""Parses requests, answers them with JSON or cached bytes, and refuses them with a sentence."""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from holter.dashboard.stores import MOST_AT_ONCE
from holter.pages.data.encoding import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from holter.dashboard.stores import Stores
    from holter.views.reading import Reading

T = TypeVar("T")

HTML = "text/html; charset=utf-8"
MOST_POINTS = 4000
"""Pixels of the widest screen."""
MOST_STORES = 1000
MOST_OFFSET = 10**9
"""Entries of the longest list."""
MOST_SECONDS = 4e9
"""Longer than any job; times further away do not fit into 64 bits of ns."""
MOST_WAITING = 200
"""Requests that wait for their turn to be computed; further ones are refused."""
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_MOST_SHOWN = 40


class RefusalError(Exception):
    """A request that cannot be answered, with a message and an HTTP status."""

    def __init__(self, text: str, code: int = 400) -> None:
        super().__init__(text)
        self.code = code


def which(request: Request) -> tuple[str, int]:
    """Return the job's name and the number of its store, as the address says."""
    return request.path_params["job"], store_of(request)


def store_of(request: Request) -> int:
    """Return the number of the store that an address names, by default the first."""
    return whole(request.query_params, "store", 0, MOST_STORES - 1, 0)


def whole(asked: Mapping[str, str], name: str, low: int, high: int, default: int | None = None) -> int:
    """Return a whole number that an address gives; raises `RefusalError` if it is invalid."""
    text = asked.get(name, "")
    if not text and default is not None:
        return default
    if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
        raise RefusalError(f"{name} is {_shown(text)}; valid: a whole number from {low} to {high}")
    return int(text)


def amount(asked: Mapping[str, str], name: str, low: float, high: float) -> float | None:
    """Return a number that an address gives, None by default; raises `RefusalError`."""
    text = asked.get(name, "")
    try:
        number = float(text) if text else None
    except ValueError:
        number = math.nan
    if number is not None and not low <= number <= high:
        raise RefusalError(f"{name} is {_shown(text)}; valid: a number from {low:.15g} to {high:.15g}")
    return number


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def answered(document: Any, code: int = 200) -> Response:
    """Answer with a document as JSON."""
    return Response(encoded(document), code, media_type="application/json")


async def kept(
    stores: Stores,
    request: Request,
    key: str,
    made: Callable[[Reading], bytes],
    kind: str = "application/json",
    **more: str,
) -> Response:
    """Answer about a job as it is now: what `made` returns is made and compressed once for each key.

    `more` are headers of the answer, with `_` for `-`.
    """
    packed = "gzip" in request.headers.get("accept-encoding", "")
    job, store = which(request)
    body = stores.at_once(job, store, key, packed=packed)
    if body is None:
        body = await _made(stores, job, store, key, made, packed)
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    if packed:
        headers |= {"content-encoding": "gzip", "vary": "Accept-Encoding"}
    return Response(body, media_type=kind, headers=headers)


async def _made(
    stores: Stores, job: str, store: int, key: str, made: Callable[[Reading], bytes], packed: bool
) -> bytes:
    """Make an answer in a thread; equal requests about the same state of the job share it.

    After each change all tabs ask at once: one thread works, and no other thread waits for its lock.
    """
    known = stores.last(job, store)
    name = (job, store, key, packed, known and known.version)
    making = stores.making.get(name)
    if making is None:
        ask = in_turn(stores, lambda: stores.kept(job, store, key, made, packed=packed))
        making = stores.making[name] = asyncio.ensure_future(ask)

        def done(one: asyncio.Future[bytes]) -> None:
            del stores.making[name]
            if not one.cancelled():
                one.exception()  # retrieved, so that asyncio does not log it

        making.add_done_callback(done)
    return await asyncio.shield(making)  # a closed connection does not cancel it for others


def window_of(asked: Mapping[str, str]) -> tuple[float, float] | None:
    """Return the time window that an address asks for, seconds since the job's start; None for all of it."""
    since, until = (amount(asked, name, -MOST_SECONDS, MOST_SECONDS) for name in ("from", "to"))
    if since is None and until is None:
        return None
    if until is None or (since or 0.0) >= until:
        given = " ".join(f"{name}={_shown(asked.get(name, ''))}" for name in ("from", "to"))
        raise RefusalError(f"{given} is no time window; valid: seconds since the job's start, from before to")
    return since or 0.0, until


def points_of(asked: Mapping[str, str], default: int = 300) -> int:
    """Return how many points wide a drawing may be."""
    return whole(asked, "width", 1, MOST_POINTS, default)


async def in_turn(stores: Stores, work: Callable[[], T]) -> T:
    """Do slow work in a thread; a limit on such threads keeps short answers fast.

    Raises:
        RefusalError: Too many requests are waiting.
    """
    if stores.slow >= MOST_AT_ONCE + MOST_WAITING:
        raise RefusalError(f"{MOST_WAITING} requests wait for an answer already; ask again in a moment", 503)
    stores.slow += 1
    try:
        async with stores.turns:
            return await run_in_threadpool(work)
    finally:
        stores.slow -= 1
