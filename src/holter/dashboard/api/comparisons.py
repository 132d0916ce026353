"""Charts of several jobs on the same axes: `job=STORE/NAME` or `job=NAME` for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from holter.dashboard.answers import RefusalError, answered, in_turn, points_of
from holter.dashboard.overlays import overlaid, places
from holter.pages.data.charts import chart_data
from holter.views.comparison.overlays import OVERLAYS, missing

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holter.dashboard.stores import Stores


def routes(stores: Stores) -> list[Route]:
    """Return the route of the charts of a comparison."""

    async def figures(request: Request) -> Response:
        asked = request.query_params
        names = [name for name in asked.get("names", "").split(",") if name] or OVERLAYS
        chosen, width = asked.getlist("job"), points_of(dict(asked))
        baseline = asked.get("baseline", "")
        try:
            drawn = await in_turn(
                stores, lambda: overlaid(stores, places(stores, chosen, baseline), names, width)
            )
        except KeyError as error:
            raise RefusalError(str(error.args[0]), 404) from None
        charts = {
            name: {"missing": missing(name)} if figure is None else chart_data(figure)
            for name, figure in drawn.items()
        }
        return answered({"schema": 1, "figures": charts})

    return [Route("/api/v1/compare/figures", figures)]
