"""The timeline of a job as a trace for Perfetto, for the whole job or a time window."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from holter.dashboard.answers import RefusalError, in_turn, which, window_of
from holter.dashboard.api import JOB
from holter.report.exports import ExportSelection, perfetto
from holter.store.trial import Trial

if TYPE_CHECKING:
    from starlette.requests import Request

    from holter.dashboard.stores import Stores
    from holter.store.job import JobFolder

_MOST_BYTES = 500_000_000
"""Larger traces are exported by `holter export`; a browser cannot hold them."""


def routes(stores: Stores) -> list[Route]:
    """Return the route of the trace."""

    async def trace(request: Request) -> Response:
        job, store = which(request)
        folder = await run_in_threadpool(stores.folder, job, store)
        window = window_of(request.query_params)
        body = await in_turn(stores, lambda: _trace(folder, window))
        name = f'attachment; filename="{job}{perfetto.SUFFIX}"'
        return Response(body, media_type="application/octet-stream", headers={"content-disposition": name})

    return [Route(f"{JOB}/trace", trace)]


def _trace(folder: JobFolder, window: tuple[float, float] | None) -> bytes:
    """Return the trace of a job, or of the time window (seconds since its start)."""
    trial = Trial(folder)
    start = int(trial.manifest.get("start") or 0)
    since, until = (None, None) if window is None else (start + round(end * 1e9) for end in window)
    with tempfile.TemporaryDirectory() as draft:
        output = Path(draft) / f"trace{perfetto.SUFFIX}"
        if not perfetto.write(trial, ExportSelection(since, until), output):
            raise RefusalError(f"there is nothing to show: no {perfetto.NEEDS}", 404)
        if output.stat().st_size > _MOST_BYTES:
            raise RefusalError(
                f"the trace has more than {_MOST_BYTES // 10**6} MB: select a shorter window, or use "
                f"`holter export {folder.name} --format perfetto`",
                413,
            )
        return output.read_bytes()
