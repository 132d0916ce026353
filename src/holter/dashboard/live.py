"""Server-sent events: notifies pages of changes; all pages of a job share one watch."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from holter.dashboard.answers import store_of
from holter.views.jobs import RUNNING, chip

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from starlette.requests import Request

    from holter.dashboard.stores import Stores

LOOK_S = 0.5
_BEAT_S = 15.0
"""Seconds without a change after which a heartbeat is sent, so that both ends notice a dead connection."""
_SHARE = 0.06
"""Share of a core that is spent on drawing and sending changes."""
_TAB_S = 0.002
"""Approximate CPU seconds of sending a change to one tab."""
_MOST_S = 30.0
MOST_STREAMS, MOST_OF_ONE = 300, 100
"""Limits of open streams: in total, and per client address."""
_LATER_MS = 15_000
_STEPS_S = 5.0
"""Seconds between notifications of the list of jobs while one of them takes steps."""
_SIGN_S = 5.0
"""Seconds between signals to a running job's agents that a page is open."""


class Live:
    """Watches the jobs whose pages are open, each once."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._watches: dict[str, _Watch] = {}
        self._listen: Counter[str] = Counter()

    async def events(self, request: Request) -> StreamingResponse:
        """Answer with a stream: `hello` now, `changed` after every change of the job, or of the list of jobs.

        A page sends the `stamp` of what it shows; if that is old, `changed` follows at once.

        Each event has JSON: `age_s` is the age of the newest sample of the machine, if any. `text` of
        `lost` says what is wrong with the store.
        """
        job, store = request.query_params.get("job"), store_of(request)
        watch = _Watch(self.stores, job, store)
        headers = {"x-accel-buffering": "no"}
        shown = request.query_params.get("stamp", "")
        key = f"{store}/{job}" if job is not None else ""
        stream = self._counted(request.client.host if request.client else "", key, watch, shown)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _counted(self, who: str, key: str, fresh: _Watch, shown: str) -> AsyncIterator[str]:
        """Stream to a client; beyond the limit the client gets the reason and tries again later."""
        if self._listen.total() >= MOST_STREAMS or self._listen[who] >= MOST_OF_ONE:
            text = f"{self._listen.total()} pages listen to this server already; close some of them"
            yield f"retry: {_LATER_MS}\n{_event('lost', {'text': text})}"
            return
        self._listen[who] += 1
        stream = self._stream(key, fresh, shown)
        try:
            async for text in stream:
                yield text
        finally:
            self._listen[who] -= 1
            if not self._listen[who]:
                del self._listen[who]
            await stream.aclose()

    async def _stream(self, key: str, fresh: _Watch, shown: str) -> AsyncGenerator[str]:
        watch = self._watches.setdefault(key, fresh)
        watch.readers += 1
        try:
            seen = watch.number
            with contextlib.suppress(OSError, LookupError, ValueError):  # `run` reports it
                now = await run_in_threadpool(watch.stamp)
                watch.last = now if watch.last is None else watch.last
            if watch.task is None:
                watch.task = asyncio.create_task(watch.run())
            facts = await run_in_threadpool(watch.facts)
            yield f"retry: 2000\n{_event('hello', facts)}"
            if shown and watch.last is not None and shown != str(watch.last):
                yield _event("changed", facts)
            while True:
                try:
                    await asyncio.wait_for(watch.later(seen), _BEAT_S)
                    seen = watch.number
                    yield watch.text
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            watch.readers -= 1
            if not watch.readers:
                self._watches.pop(key, None)
                if watch.task is not None:
                    watch.task.cancel()


class _Watch:
    """Watches one job, or the list of jobs, while streams are open."""

    def __init__(self, stores: Stores, job: str | None, store: int) -> None:
        self.stores = stores
        self.job, self.store = job, store
        self.number = 0
        self.last: int | str | None = None
        """Stamp of the last notification; None before the first check."""
        self.text = ""
        self.readers = 0
        self.task: asyncio.Task[None] | None = None
        self.news = asyncio.Condition()

    def stamp(self) -> int:
        """Return a number that changes when there is something new."""
        if self.job is not None:
            return self.stores.stamp(self.job, self.store)
        listed, _ = self.stores.listed(whole=False)
        shown = tuple((one["name"], one["status"], str(one["verdict"]), chip(one)) for one in listed)
        runs = any(one["status"] in RUNNING and not one["silent_s"] for one in listed)
        return hash((shown, time.monotonic() // _STEPS_S if runs else 0))

    def facts(self) -> dict[str, object]:
        """Return the data of an event."""
        with contextlib.suppress(OSError, LookupError, ValueError):
            return {"age_s": self.stores.age_s(self.job, self.store)} if self.job is not None else {}
        return {}

    def cost_s(self) -> float:
        """Return the CPU seconds of answers about the current state, or about the one before."""
        known = None if self.job is None else self.stores.last(self.job, self.store)
        return 0.0 if known is None else known.cost_s or known.cost_before_s

    async def later(self, seen: int) -> None:
        """Wait for an event after number `seen`."""
        async with self.news:
            await self.news.wait_for(lambda: self.number != seen)

    async def run(self) -> None:
        notified, shown = 0.0, -_SIGN_S
        while True:
            try:
                if time.monotonic() - shown >= _SIGN_S:
                    shown = time.monotonic()
                    if self.job is not None:
                        await run_in_threadpool(self.stores.watched, self.job, self.store)
                now: int | str = await run_in_threadpool(self.stamp)
                facts = await run_in_threadpool(self.facts) if now != self.last else {}
                text = _event("changed", facts)
            except (OSError, LookupError, ValueError) as error:
                now = "lost"
                reason = " ".join(str(error.args[0] if error.args else error).split())
                text = _event("lost", {"text": reason})
            if self.last is None:
                self.last = now
            # The rate keeps to the share of a core, whatever the number of changes and of open pages.
            rest = min((self.cost_s() + self.readers * _TAB_S) / _SHARE, _MOST_S) - (
                time.monotonic() - notified
            )
            if now != self.last and rest <= 0:
                self.last, notified = now, time.monotonic()
                async with self.news:
                    self.number += 1
                    self.text = text
                    self.news.notify_all()
            await asyncio.sleep(LOOK_S)


def _event(name: str, facts: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(facts)}\n\n"
