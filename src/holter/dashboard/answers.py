"""What every answer is made with: which job is asked about, JSON, and refusals in words."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from holter.dashboard.stores import Stores
    from holter.views.figures import Reading

MOST_POINTS = 4000
"""Nobody's screen is wider."""


class RefusalError(Exception):
    """A request that cannot be answered: what to say, and the HTTP status."""

    def __init__(self, text: str, code: int = 400) -> None:
        super().__init__(text)
        self.code = code


def which(request: Request) -> tuple[str, int]:
    """Return the job's name and the number of its store, as the address says."""
    return request.path_params["job"], store_of(request)


def store_of(request: Request) -> int:
    """Return the number of the store that an address names, the first where it names none."""
    store = request.query_params.get("store", "0")
    if not store.isdigit():
        raise RefusalError(f"store {store!r} is no number")
    return int(store)


def answered(document: Any, code: int = 200) -> Response:
    """Return a document as JSON; what is not a number is null."""
    return Response(encoded(document), code, media_type="application/json")


def encoded(document: Any) -> bytes:
    """Return a document as the bytes of its JSON; what is not a number is null."""
    return msgspec.json.encode(document, enc_hook=_plain)


async def kept(
    stores: Stores,
    request: Request,
    key: str,
    made: Callable[[Reading], bytes],
    kind: str = "application/json",
) -> Response:
    """Answer about a job as it is now: what `made` returns is made and compressed once for each key."""
    packed = "gzip" in request.headers.get("accept-encoding", "")
    job, store = which(request)
    body = stores.at_once(job, store, key, packed=packed)
    if body is None:
        body = await _made(stores, job, store, key, made, packed)
    headers = {"content-encoding": "gzip", "vary": "Accept-Encoding"} if packed else None
    return Response(body, media_type=kind, headers=headers)


async def _made(
    stores: Stores, job: str, store: int, key: str, made: Callable[[Reading], bytes], packed: bool
) -> bytes:
    """Let a thread make an answer; whoever else asks the same of the same state of the job waits for it too.

    After each change all tabs ask at once: one thread works, and no others wait for its lock.
    """
    name = (job, store, key, packed, stores.state(job, store))
    making = stores.making.get(name)
    if making is None:
        ask = run_in_threadpool(lambda: stores.kept(job, store, key, made, packed=packed))
        making = stores.making[name] = asyncio.ensure_future(ask)

        def done(one: asyncio.Future[bytes]) -> None:
            del stores.making[name]
            if not one.cancelled():
                one.exception()  # perhaps nobody waits for it any more

        making.add_done_callback(done)
    return await asyncio.shield(making)  # who goes away takes it from nobody


def window_of(asked: Mapping[str, str]) -> tuple[float, float] | None:
    """Return the time window that an address asks for, seconds since the job's start; None for all of it."""
    since, until = asked.get("from", ""), asked.get("to", "")
    if not since and not until:
        return None
    try:
        window = float(since or 0), float(until)
    except ValueError:
        window = (math.nan, math.nan)
    if not (math.isfinite(window[0]) and math.isfinite(window[1]) and window[0] < window[1]):
        raise RefusalError(f"from={since} to={until} is no time window: seconds since the job's start")
    return window


def points_of(asked: Mapping[str, str], default: int = 300) -> int:
    """Return how many points wide a drawing may be."""
    width = asked.get("width", "")
    if not width:
        return default
    if not width.isdigit() or not 1 <= int(width) <= MOST_POINTS:
        raise RefusalError(f"width is {width!r}; valid: 1 to {MOST_POINTS}")
    return int(width)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in JSON")
