"""Times the building of batches (fetch, collate, stack samples) in the process that runs the dataset."""

from __future__ import annotations

import inspect
import os
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.data.fetching import SHORT_NS, Fetching
from holter.recorder.frameworks.pytorch.data.loaders import ENV_LOADER
from holter.recorder.frameworks.pytorch.data.stacks import StackSampler
from holter.recorder.patches import hide, passed_over
from holter.recorder.sampling.frames import file_text
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.step_hooks import ThreadState
    from holter.recorder.patches import Patches

WORTH = 5
"""Fetches in the training process are recorded if they take more than one part in `WORTH` of its time.

Below that share no verdict needs them, and records and stack samples would be expensive for short steps.
"""
WORTH_NS = 500_000_000
WORTH_FETCHES = 20
"""Time and number of fetches after which the share is computed again."""
UNTIMED = 15
"""Fetches skipped after each timed one, while fetches are not recorded."""
THINNED = 6
"""Fetches skipped after each recorded one, while fetches are short; no multiple of usual periods."""


class Batches:
    """Times the building of batches in a worker of a loader, or in the training process without workers."""

    def __init__(self, adapter: AdapterState, become_worker: Callable[[], None]) -> None:
        self.adapter = adapter
        self.fetches = adapter.breaker("fetch")
        self.fetching = Fetching()
        self.sampler: StackSampler | None = None
        self._become_worker = become_worker
        self._is_worker = False
        self._worth = True
        self._judged = self._began = self._spent = 0
        # The first steps of a training are slow for other reasons, so they do not count.
        self._awaited = WORTH_FETCHES
        self.unseen = 0
        """Fetches to skip."""
        self._stands_for = 1
        """Fetches that the next timed one represents: itself and the skipped ones before it."""
        self._fetch_code = 0
        self._fetch_codes: tuple[Any, ...] = ()

    def attach(self, patches: Patches) -> None:
        """Wrap the fetchers of batches and the workers' main function."""
        inner = self.adapter.torch.utils.data._utils
        patches.after(inner.fetch._BaseDatasetFetcher, "__init__", self._wrap_collate, self.fetches)
        for fetcher in (inner.fetch._MapDatasetFetcher, inner.fetch._IterableDatasetFetcher):
            self._fetch_codes += (fetcher.fetch.__code__,)
            patches.wrap(fetcher, "fetch", self._watch_fetch)
        patches.wrap(inner.worker, "_worker_loop", self._watch_worker)
        patches.later(self.stop)

    def stop(self) -> None:
        """End the sampling of stacks."""
        if self.sampler is not None:
            self.sampler.stop()
            self.sampler = None

    def _wrap_collate(self, result: None, fetcher: Any, *_: Any, **__: Any) -> None:
        fetcher.collate_fn = self._watch_collate(fetcher.collate_fn)

    def _watch_collate(self, original: Any) -> Any:
        states, fetching, breaker = self.adapter.states, self.fetching, self.fetches
        code = self._collate_code(original)

        def collate(samples: Any) -> Any:
            begun, state = False, states.current
            if fetching.began and state.fetching == 1 and breaker.on:
                try:
                    fetching.stop(perf_counter_ns())
                    state.begin(code)
                    begun = True
                except Exception as error:
                    breaker.fault(error)
            try:
                return original(samples)
            except BaseException as error:
                hide(error)
                raise
            finally:
                try:
                    if begun:
                        state.end_of(code)
                except Exception as error:
                    breaker.fault(error)

        return passed_over(collate)

    def _collate_code(self, function: Any) -> int:
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        code = getattr(function, "__code__", None)
        where = (
            f" ({os.path.basename(file_text(code.co_filename))}:{code.co_firstlineno})"
            if code is not None
            else ""
        )
        return self.adapter.code(Phase.COLLATE, name.replace("<locals>.", "") + where)

    def _watch_fetch(self, original: Any) -> Any:
        states, fetching, breaker = self.adapter.states, self.fetching, self.fetches
        begin, end, batches = self._begin_fetch, self._end_fetch, self

        def fetch(self: Any, index: Any) -> Any:
            if batches.unseen or not breaker.on:
                if batches.unseen:
                    batches.unseen -= 1
                try:
                    return original(self, index)
                except BaseException as error:
                    hide(error)
                    raise
            state = states.current
            state.fetching += 1
            code, samples = 0, 1
            try:
                if state.fetching == 1 and not fetching.began:
                    if self.auto_collation:
                        samples = len(index)
                    code = begin(state)
            except Exception as error:
                breaker.fault(error)
            try:
                return original(self, index)
            except BaseException as error:
                if isinstance(error, StopIteration):
                    samples = 0
                else:
                    state.fail(error)
                hide(error)
                raise
            finally:
                state.fetching -= 1
                try:
                    if code:
                        end(state, code, samples)
                except Exception as error:
                    breaker.fault(error)

        return fetch

    def _begin_fetch(self, state: ThreadState) -> int:
        """Begin a span and return its code; return -1 if the fetch is only timed."""
        self._began = now = perf_counter_ns()
        if not self._is_worker:
            self._awaited -= 1
            if self._awaited <= 0 and now - self._judged > WORTH_NS:
                self._worth = not self._judged or self._spent * WORTH > now - self._judged
                self._judged, self._spent = now, 0
                self._awaited = WORTH_FETCHES // self._stands_for
            if not self._worth:
                return -1
        sampler = self.sampler
        if sampler is None or sampler.pid != os.getpid():
            self.fetching.forget()
            self.sampler = sampler = StackSampler(self.adapter.session, self.fetching, self._fetch_codes)
        if not self._fetch_code:
            self._fetch_code = self.adapter.code(Phase.FETCH, "fetch")
        state.begin(self._fetch_code)
        self.fetching.start(perf_counter_ns())
        if sampler.asleep:
            sampler.wake()
        return self._fetch_code

    def _end_fetch(self, state: ThreadState, code: int, samples: int) -> None:
        now = perf_counter_ns()
        time = now - self._began
        self._spent += time * self._stands_for
        if not self._is_worker:
            self.unseen = UNTIMED if code < 0 else THINNED if time < SHORT_NS else 0
            self._stands_for = self.unseen + 1
        if code > 0:
            self.fetching.stop(now)
            state.end_of(code, float(samples))

    def _watch_worker(self, original: Any) -> Any:
        adapter, breaker = self.adapter, self.fetches
        place = list(inspect.signature(original).parameters).index("worker_id")
        enter, leave = self._enter_worker, self.stop

        def _worker_loop(*args: Any, **kwargs: Any) -> Any:
            try:
                enter(int(kwargs["worker_id"] if "worker_id" in kwargs else args[place]))
            except Exception as error:
                breaker.fault(error)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                leave()
                if adapter.pauses:
                    adapter.write_pauses()

        return _worker_loop

    def _enter_worker(self, worker_id: int) -> None:
        """Become a worker: remove all hooks of the training."""
        session = self.adapter.session
        self._is_worker = True
        parent, _, index = os.environ.pop(ENV_LOADER, "").rpartition(":")
        if index:
            # The name tells the loaders apart.
            self._fetch_code = self.adapter.code(Phase.FETCH, f"loader {index}")
        session.become_worker(worker_id, parent or None)
        self._become_worker()
