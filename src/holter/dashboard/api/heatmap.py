"""Heat maps of utilization: one number per device and pixel column."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from holter.dashboard.answers import in_turn, points_of, which, window_of
from holter.dashboard.api import JOB
from holter.pages.data.heatmap import heatmap_bytes
from holter.store.trial import Trial
from holter.views.heatmap import Heatmap
from holter.views.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from holter.dashboard.stores import Stores

_KEPT = 8


class _Known:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stamp: int | None = None
        self.heatmap: Heatmap | None = None


def routes(stores: Stores) -> list[Route]:
    """Return the route of heat maps."""
    heatmaps = _Heatmaps(stores)

    async def answer(request: Request) -> Response:
        asked = dict(request.query_params)
        body = await in_turn(stores, lambda: heatmaps.answer(*which(request), asked))
        return Response(body, media_type="application/octet-stream", headers={"content-encoding": "identity"})

    return [Route(f"{JOB}/heatmap", answer)]


class _Heatmaps:
    """Caches the heat maps of the last few jobs."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def answer(self, job: str, store: int, asked: Mapping[str, str]) -> bytes:
        """Return a window as bytes: the length of a head as JSON, that, then mean, least and greatest."""
        window, width = window_of(asked), points_of(asked, 1000)
        folder = self.stores.folder(job, store)
        key = f"{store}/{job}"
        with self._lock:
            known = self._known.pop(key, None) or _Known()
            self._known[key] = known
            while len(self._known) > _KEPT:
                self._known.pop(next(iter(self._known)))
        stamp = self.stores.stamp(job, store)
        with known.lock:
            if known.heatmap is None:
                trial = Trial(folder)
                interval = Reading(trial).interval_ns
                known.heatmap = Heatmap(trial, int(trial.manifest.get("start") or 0), interval)
            elif known.stamp != stamp:
                known.heatmap.refresh(Trial(folder))
            known.stamp = stamp
            heatmap = known.heatmap
            start = heatmap.start_ns
            since, until = window or (0.0, (heatmap.end_ns - start) / 1e9)
            begin = start + round(since * 1e9)
            heat = heatmap.heat(begin, max(begin + width, start + round(until * 1e9)), width)
        return heatmap_bytes(heat, heatmap, asked.get("node") or None)
