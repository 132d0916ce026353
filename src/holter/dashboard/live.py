"""Server-sent events: a page is told when what it shows has changed; all pages of a job share one look."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from holter.dashboard.answers import store_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from starlette.requests import Request

    from holter.dashboard.stores import Stores

LOOK_S = 0.5
_BEAT_S = 15.0
"""After so long without a change a line is sent anyway, so that both ends notice a dead connection."""
_SHARE = 0.06
"""The share of a core that is spent on drawing and sending what has changed."""
_TAB_S = 0.002
"""CPU time of sending it to one tab, about."""
_MOST_S = 30.0
MOST_STREAMS, MOST_OF_ONE = 300, 100
"""Pages that may listen at the same time: all together, and from one address."""
_LATER_MS = 15_000
_SIGN_S = 5.0
"""So often a running job's agents learn that somebody looks."""


class Live:
    """Watches what somebody looks at, and nothing else; however many look at a job, it is watched once."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._watches: dict[str, _Watch] = {}
        self._listen: Counter[str] = Counter()

    async def events(self, request: Request) -> StreamingResponse:
        """Answer with a stream: `hello` now, `changed` after every change of the job, or of the list of jobs.

        A page gives the `stamp` of what it shows; where that is old already it is told at once.

        Each has JSON: `age_s`, how old the newest sample of the machine is, where there is one. `lost` says
        in `text` what became of the store.
        """
        job, store = request.query_params.get("job"), store_of(request)
        watch = _OfJob(self.stores, job, store) if job is not None else _OfList(self.stores)
        headers = {"x-accel-buffering": "no"}
        shown = request.query_params.get("stamp", "")
        key = f"{store}/{job}" if job is not None else ""
        stream = self._counted(request.client.host if request.client else "", key, watch, shown)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _counted(self, who: str, key: str, fresh: _Watch, shown: str) -> AsyncIterator[str]:
        """Stream as long as somebody listens; who is one too many hears why, and asks again later."""
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
            with contextlib.suppress(OSError, LookupError, ValueError):  # of which `run` tells
                now = await run_in_threadpool(watch.stamp)
                watch.last = now if watch.last is None else watch.last
            if watch.task is None:
                watch.task = asyncio.create_task(watch.run())
            told = await run_in_threadpool(watch.facts)
            yield f"retry: 2000\n{_event('hello', told)}"
            if shown and watch.last is not None and shown != str(watch.last):
                yield _event("changed", told)
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
    """Looks at one thing as long as somebody listens."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.number = 0
        self.last: int | str | None = None
        """The stamp of what was told last; None before the first look."""
        self.text = ""
        self.readers = 0
        self.task: asyncio.Task[None] | None = None
        self.news = asyncio.Condition()

    def stamp(self) -> int:
        """Return a number that changes when there is something new."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return what is told with it."""
        return {}

    def cost_s(self) -> float:
        """Return what it took to answer after the last change, all pages together; CPU seconds."""
        return 0.0

    def show(self) -> None:
        """Let know that somebody looks."""

    async def later(self, seen: int) -> None:
        """Wait for news after number `seen`."""
        async with self.news:
            await self.news.wait_for(lambda: self.number != seen)

    async def run(self) -> None:
        told, shown = 0.0, -_SIGN_S
        while True:
            try:
                if time.monotonic() - shown >= _SIGN_S:
                    shown = time.monotonic()
                    await run_in_threadpool(self.show)
                now: int | str = await run_in_threadpool(self.stamp)
                facts = await run_in_threadpool(self.facts) if now != self.last else {}
                text = _event("changed", facts)
            except (OSError, LookupError, ValueError) as error:
                now = "lost"
                said = " ".join(str(error.args[0] if error.args else error).split())
                text = _event("lost", {"text": said})
            if self.last is None:
                self.last = now
            # It must not take more than its share of a core, however fast a job changes and many look.
            rest = min((self.cost_s() + self.readers * _TAB_S) / _SHARE, _MOST_S) - (time.monotonic() - told)
            if now != self.last and rest <= 0:
                self.last, told = now, time.monotonic()
                async with self.news:
                    self.number += 1
                    self.text = text
                    self.news.notify_all()
            await asyncio.sleep(LOOK_S)


class _OfJob(_Watch):
    def __init__(self, stores: Stores, job: str, store: int) -> None:
        super().__init__(stores)
        self.job, self.store = job, store

    def stamp(self) -> int:
        return self.stores.stamp(self.job, self.store)

    def facts(self) -> dict[str, Any]:
        try:
            return {"age_s": self.stores.age_s(self.job, self.store)}
        except (OSError, LookupError, ValueError):
            return {}

    def cost_s(self) -> float:
        return self.stores.cost_s(self.job, self.store)

    def show(self) -> None:
        self.stores.watched(self.job, self.store)


class _OfList(_Watch):
    def stamp(self) -> int:
        listed, _ = self.stores.listed(whole=False)
        return hash(tuple((one["name"], one["status"], str(one["verdict"])) for one in listed))


def _event(name: str, facts: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(facts)}\n\n"
