"""Server-sent events: a page is told when what it shows has changed; all pages of a job share one look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from holter.dashboard.api import store_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from holter.dashboard.stores import Stores

LOOK_S = 1.0
_BEAT = 15
"""Looks without a change after which a line is sent anyway, so that both ends notice a dead connection."""


class Live:
    """Watches what somebody looks at, and nothing else."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._watches: dict[str, _Watch] = {}

    async def events(self, request: Request) -> StreamingResponse:
        """Answer with a stream: `changed` now and after every change of the job, or of the list of jobs."""
        job, store = request.query_params.get("job"), store_of(request)

        def stamp() -> int:
            if job is not None:
                return self.stores.stamp(job, store)
            listed, _ = self.stores.listed()
            return hash(tuple((one["name"], one["status"], str(one["verdict"])) for one in listed))

        headers = {"x-accel-buffering": "no"}
        stream = self._stream(f"{store}/{job}" if job is not None else "", stamp)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _stream(self, key: str, stamp: Callable[[], int]) -> AsyncIterator[str]:
        watch = self._watches.setdefault(key, _Watch(stamp))
        watch.readers += 1
        if watch.task is None:
            watch.task = asyncio.create_task(watch.run())
        try:
            seen, quiet = watch.number, 0
            yield "retry: 2000\nevent: hello\ndata: \n\n"
            while True:
                await asyncio.sleep(LOOK_S)
                quiet += 1
                if watch.number != seen:
                    seen, quiet = watch.number, 0
                    yield f"event: {watch.said}\ndata: {watch.text}\n\n"
                elif quiet >= _BEAT:
                    quiet = 0
                    yield ": still here\n\n"
        finally:
            watch.readers -= 1
            if not watch.readers and watch.task is not None:
                watch.task.cancel()
                self._watches.pop(key, None)


class _Watch:
    def __init__(self, stamp: Callable[[], int]) -> None:
        self.stamp = stamp
        self.number = 0
        self.said, self.text = "changed", ""
        self.readers = 0
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        last: int | str | None = None
        while True:
            try:
                now: int | str = await run_in_threadpool(self.stamp)
                said, text = "changed", ""
            except (OSError, LookupError, ValueError) as error:
                now = said = "lost"
                text = " ".join(str(error.args[0] if error.args else error).split())
            if last is not None and now != last:
                self.said, self.text = said, text
                self.number += 1
            last = now
            await asyncio.sleep(LOOK_S)
