"""Orders to a running job: stop it, change its sampling, profile some steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holter.dashboard.answers import RefusalError, which
from holter.dashboard.api import JOB
from holter.schema import windows
from holter.schema.metrics import INTERVALS_MS
from holter.store.documents import Document
from holter.views.jobs import why_not_obeyed, why_not_running

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores
    from holter.store.job import JobFolder

_MOST_BYTES = 100_000


def routes(stores: Stores) -> list[Route]:
    """Return the route of all orders; each is a POST with a JSON object."""

    async def order(request: Request) -> Response:
        what = request.path_params["order"]
        if what not in _ORDERS:
            raise RefusalError(f"no order {what!r}; there are: {', '.join(_ORDERS)}", 404)
        try:
            given = msgspec.json.decode(await _body(request) or b"{}", type=Document)
        except RecursionError:
            raise RefusalError(
                "the body is nested too deep; valid: a JSON object of numbers and texts"
            ) from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RefusalError(f"the body is no JSON object: {error}") from None
        made = _ORDERS[what](given)
        job, store = which(request)
        try:
            await run_in_threadpool(lambda: _send(stores.folder(job, store), made))
        except OSError as error:
            raise RefusalError(f"job {job} cannot take the order: {error}", 503) from None
        return JSONResponse({"schema": 1, "job": job, "order": made})

    return [Route(f"{JOB}/{{order:str}}", order, methods=["POST"])]


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise RefusalError(f"the body is longer than {_MOST_BYTES} bytes, which no order is", 413)
    return bytes(body)


def _send(folder: JobFolder, order: Document) -> None:
    why = why_not_running(folder)
    if why is not None:
        raise RefusalError(why, 409)
    if any(why := why_not_obeyed(folder, name) for name in ("profile", "monitoring") if name in order):
        raise RefusalError(str(why), 409)
    folder.order(**order)


def _stop(given: Document) -> Document:
    grace = given.get("grace_s", 30)
    if not isinstance(grace, int | float) or isinstance(grace, bool) or not 0 <= grace <= 86_400:
        raise RefusalError(f"grace_s is {grace!r}; valid: 0 to 86400")
    return {"stop": {"grace_s": float(grace)}}


def _configure(given: Document) -> Document:
    interval, monitoring = given.get("interval_ms"), given.get("monitoring")
    if (interval is not None or monitoring is None) and interval not in INTERVALS_MS:
        raise RefusalError(f"interval_ms is {interval!r}; valid: {', '.join(map(str, INTERVALS_MS))}")
    if monitoring not in (None, "on", "off"):
        raise RefusalError(f"monitoring is {monitoring!r}; valid: on, off")
    made = {"interval_ms": interval, "monitoring": None if monitoring is None else monitoring == "on"}
    return {name: value for name, value in made.items() if value is not None}


def _profile(given: Document) -> Document:
    try:
        windows.order_of(given)
    except ValueError as error:
        raise RefusalError(str(error)) from None
    if given.get("timer") and given.get("python") != "cprofile":
        raise RefusalError("a timer is for python cprofile")
    return {"profile": {**given, "id": f"dashboard-{time.time_ns()}"}}


_ORDERS = {"configure": _configure, "profile": _profile, "stop": _stop}
