"""The same as JSON: what a program asks for, and the orders that a running job takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holter.dashboard.metrics import exposition
from holter.report.html import page
from holter.schema.metrics import INTERVALS_MS
from holter.views.figures import draw, names
from holter.views.issues import ordered
from holter.views.jobs import why_not_running

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores

_MOST = 500


class RefusalError(Exception):
    """A request that cannot be answered: what to say, and the HTTP status."""

    def __init__(self, text: str, code: int = 400) -> None:
        super().__init__(text)
        self.code = code


def routes(stores: Stores) -> list[Route]:
    """Return the routes below `/api/v1`, and `/metrics`."""
    api = _Api(stores)
    job = "/api/v1/jobs/{job}"
    return [
        Route("/api/v1/jobs", api.jobs),
        Route(job, api.job),
        Route(f"{job}/figures", api.figures),
        Route(f"{job}/figures/{{name}}", api.figure),
        Route(f"{job}/issues", api.issues),
        Route(f"{job}/report", api.report),
        Route(f"{job}/{{order:str}}", api.order, methods=["POST"]),
        Route("/metrics", api.metrics),
    ]


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
    return Response(msgspec.json.encode(document, enc_hook=_plain), code, media_type="application/json")


class _Api:
    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    async def jobs(self, request: Request) -> Response:
        asked = request.query_params
        listed, wrong = await run_in_threadpool(self.stores.listed)
        chosen = chosen_jobs(listed, asked.get("name", ""), asked.get("status", ""))
        first, most = _number(asked.get("offset"), 0), min(_number(asked.get("limit"), _MOST), _MOST)
        return answered(
            {"schema": 1, "count": len(chosen), "jobs": chosen[first : first + most], "unreadable": wrong}
        )

    async def job(self, request: Request) -> Response:
        return answered(await run_in_threadpool(self._described, *which(request)))

    def _described(self, job: str, store: int) -> dict[str, Any]:
        with self.stores.reading(job, store) as reading:
            return reading.description

    async def figures(self, request: Request) -> Response:
        await run_in_threadpool(self.stores.folder, *which(request))
        return answered({"schema": 1, "figures": names()})

    async def figure(self, request: Request) -> Response:
        def drawn() -> dict[str, Any]:
            with self.stores.reading(*which(request)) as reading:
                one = draw(request.path_params["name"], reading)
            return {"schema": 1, "missing": one} if isinstance(one, str) else {"schema": 1, **one.to_json()}

        try:
            return answered(await run_in_threadpool(drawn))
        except KeyError as error:
            raise RefusalError(str(error.args[0]), 404) from None

    async def issues(self, request: Request) -> Response:
        told = await run_in_threadpool(self._described, *which(request))
        listed = [
            {"rule": one.rule, **one.issue, "symptoms": [s.rule for s in one.symptoms]}
            for one in ordered(told["rules"])
        ]
        return answered({"schema": 1, "issues": listed})

    async def report(self, request: Request) -> Response:
        job, store = which(request)

        def made() -> str:
            with self.stores.reading(job, store) as reading:
                return page(reading)

        name = f'attachment; filename="{job}.html"'
        return HTMLResponse(await run_in_threadpool(made), headers={"content-disposition": name})

    async def order(self, request: Request) -> Response:
        """Tell a running job to stop, or how often to sample."""
        what = request.path_params["order"]
        if what not in ("stop", "configure"):
            raise RefusalError(f"no order {what!r}; there are: configure, stop", 404)
        try:
            given = msgspec.json.decode(await request.body() or b"{}", type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise RefusalError(f"the body is no JSON object: {error}") from None
        order = _stop(given) if what == "stop" else _configure(given)
        job, store = which(request)

        def told() -> None:
            folder = self.stores.folder(job, store)
            why = why_not_running(folder)
            if why is not None:
                raise RefusalError(why, 409)
            folder.order(**order)

        try:
            await run_in_threadpool(told)
        except OSError as error:
            raise RefusalError(f"job {job} cannot be told: {error}", 503) from None
        return JSONResponse({"schema": 1, "job": job, "order": order})

    async def metrics(self, request: Request) -> Response:
        text = await run_in_threadpool(exposition, self.stores)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def chosen_jobs(listed: list[dict[str, Any]], name: str, status: str) -> list[dict[str, Any]]:
    """Keep the jobs whose name holds a text, and that have a status."""
    return [
        job
        for job in listed
        if name.lower() in job["name"].lower() and (not status or job["status"].lower() == status.lower())
    ]


def _stop(given: dict[str, Any]) -> dict[str, Any]:
    grace = given.get("grace_s", 30)
    if not isinstance(grace, int | float) or isinstance(grace, bool) or not 0 <= grace <= 86_400:
        raise RefusalError(f"grace_s is {grace!r}; valid: 0 to 86400")
    return {"stop": {"grace_s": float(grace)}}


def _configure(given: dict[str, Any]) -> dict[str, Any]:
    interval = given.get("interval_ms")
    if interval not in INTERVALS_MS:
        raise RefusalError(f"interval_ms is {interval!r}; valid: {', '.join(map(str, INTERVALS_MS))}")
    return {"interval_ms": interval}


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdigit() else default


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in JSON")
