"""Charts as data, for a time window and a width in pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from holter.dashboard.answers import RefusalError, answered, kept, points_of, which, window_of
from holter.dashboard.api import JOB
from holter.drawing.figure import figure
from holter.pages.data.charts import chart_data, drawn_by_script
from holter.pages.data.encoding import encoded
from holter.views.figures import chosen, draw, names
from holter.views.step_clock import step_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores
    from holter.views.reading import Reading


_SEEN = ("store", "names", "html", "from", "to", "width", "node", "devices")
"""Parameters of every chart; other parameters belong to single charts."""


def routes(stores: Stores) -> list[Route]:
    """Return the routes of the charts' names, of one, of several, and of the steps' times."""

    async def listed(request: Request) -> Response:
        chosen = request.query_params.get("names")
        if chosen is not None:
            return await _answer(stores, request, chosen.split(","))
        await run_in_threadpool(stores.folder, *which(request))
        return answered({"schema": 1, "figures": names()})

    async def one(request: Request) -> Response:
        return await _answer(stores, request, request.path_params["name"])

    async def clock(request: Request) -> Response:
        def made(reading: Reading) -> bytes:
            return encoded({"schema": 1, **step_clock(reading.drawn_steps, reading.start, reading.width)})

        return await _kept(stores, request, "clock", made)

    return [
        Route(f"{JOB}/figures", listed),
        Route(f"{JOB}/figures/{{name}}", one),
        Route(f"{JOB}/clock", clock),
    ]


async def _answer(stores: Stores, request: Request, wanted: str | list[str]) -> Response:
    """Draw one chart, or several under their names."""
    asked = dict(request.query_params)
    html = asked.get("html") == "yes"

    def made(reading: Reading) -> bytes:
        if isinstance(wanted, str):
            return encoded({"schema": 1, **_drawn(wanted, reading, asked, html=html)})
        return encoded(
            {"schema": 1, "figures": {name: _drawn(name, reading, asked, html=html) for name in wanted}}
        )

    try:
        return await _kept(stores, request, f"figures {wanted} {html}", made)
    except KeyError as error:
        raise RefusalError(str(error.args[0]), 404) from None


def _drawn(name: str, reading: Reading, asked: Mapping[str, str], *, html: bool) -> dict[str, Any]:
    """Return a chart as data; with `html`, a chart that no script draws as a picture."""
    found = draw(name, reading, **chosen(name, asked))
    if isinstance(found, str):
        return {"missing": found}
    if html and not drawn_by_script(found):
        return {"title": found.title, "html": figure(found)}
    return chart_data(found)


async def _kept(stores: Stores, request: Request, what: str, made: Callable[[Reading], bytes]) -> Response:
    """Answer for a window and a width, from the cache if possible."""
    asked = request.query_params
    window, width, node = window_of(asked), points_of(asked), asked.get("node") or None
    devices = tuple(filter(None, asked.get("devices", "").split(",")))
    options = sorted((name, value) for name, value in asked.items() if name not in _SEEN)
    key = f"{what} {window} {width} {node!r} {devices} {options}"

    def seen(reading: Reading) -> bytes:
        return made(reading.at(window, width, node=node, devices=devices))

    return await kept(stores, request, key, seen)
