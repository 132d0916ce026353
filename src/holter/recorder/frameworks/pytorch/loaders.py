"""Data loading: the wait for a batch, and in the process that runs the dataset how a batch is built."""

from __future__ import annotations

import inspect
import os
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.fetching import Fetching
from holter.recorder.frameworks.pytorch.flow import NAN
from holter.recorder.frameworks.pytorch.stacks import StackSampler
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.flow import At, Flow
    from holter.recorder.frameworks.pytorch.patches import Patches

ENV_LOADER = "HOLTER_LOADER"
"""While a loader starts its workers: key of this process, colon, index of the loader."""
NEXT = "next batch"
START = "iterator start"
"""Names of DATA_LOADING spans: a batch is waited for, or an iterator made and its workers started."""


class Loaders:
    """Times every data loader of this process, or builds batches as some loader's worker."""

    def __init__(self, flow: Flow, become_worker: Callable[[], None]) -> None:
        self.flow = flow
        self.waits = flow.collector("data_loading")
        self.fetches = flow.collector("fetch")
        self.fetching = Fetching()
        self.sampler: StackSampler | None = None
        self.before_next: Callable[[], None] = lambda: None
        """Forgets an optimizer step that raised."""
        self.end_unseen_step: Callable[[], None] = lambda: None
        self._become_worker = become_worker
        self._loaders: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._count = 0
        self._next_code = flow.code(Phase.DATA_LOADING, NEXT)
        self._start_code = flow.code(Phase.DATA_LOADING, START)
        self._fetch_code = 0
        self._fetch_codes: tuple[Any, ...] = ()
        self._collate_codes: dict[Any, int] = {}

    def attach(self, patches: Patches) -> None:
        """Wrap loaders, their iterators, the fetchers of batches and the workers' main function."""
        data = self.flow.torch.utils.data
        iterators, fetch, worker = data.dataloader, data._utils.fetch, data._utils.worker
        patches.wrap(data.DataLoader, "__iter__", self._watch_start)
        patches.wrap(iterators._BaseDataLoaderIter, "__init__", self._watch_iterator)
        patches.wrap(iterators._BaseDataLoaderIter, "__next__", self._watch_next)
        patches.wrap(fetch._BaseDatasetFetcher, "__init__", self._watch_fetcher)
        for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            self._fetch_codes += (fetcher.fetch.__code__,)
            patches.wrap(fetcher, "fetch", self._watch_fetch)
        patches.wrap(worker, "_worker_loop", self._watch_worker)
        patches.later(self.stop)

    def stop(self) -> None:
        """End the sampling of stacks."""
        if self.sampler is not None:
            self.sampler.stop()
            self.sampler = None

    # -- the training process

    def index(self, loader: Any) -> int:
        """Return the number of a loader in its process; note what it is when it is new."""
        known = self._loaders.get(id(loader))
        if known is not None and known[0]() is loader:
            return known[1]
        index = self._count
        self._count += 1
        self._loaders[id(loader)] = (weakref.ref(loader), index)
        dataset = type(getattr(loader, "dataset", None))
        workers = loader.num_workers
        self.flow.session.journal(
            "loader",
            {
                "index": index,
                "kind": "multi" if workers else "single",
                "workers": workers,
                "batch_size": getattr(loader, "batch_size", None),
                "pin_memory": bool(loader.pin_memory),
                "prefetch_factor": loader.prefetch_factor if workers else None,
                "persistent_workers": bool(loader.persistent_workers),
                "dataset": f"{dataset.__module__}.{dataset.__qualname__}",
            },
        )
        return index

    def _watch_start(self, original: Any) -> Any:
        here, collector = self.flow.here, self.waits
        start, end = self._begin_start, self._end_start

        def __iter__(self: Any) -> Any:  # noqa: N807
            at = here.at
            if at.loading or not collector.on:
                return original(self)
            at.loading = True
            index = -1
            try:
                index = start(self, at)
            except Exception as error:
                collector.fault(error)
            try:
                return original(self)
            except BaseException as error:
                at.fail(error)
                raise
            finally:
                at.loading = False
                try:
                    end(index, at)
                except Exception as error:
                    collector.fault(error)

        return __iter__

    def _begin_start(self, loader: Any, at: At) -> int:
        index = self.index(loader)
        at.seen = True
        self.before_next()
        if loader.num_workers:
            os.environ[ENV_LOADER] = f"{self.flow.session.process}:{index}"
        at.begin(self._start_code)
        return index

    def _end_start(self, index: int, at: At) -> None:
        os.environ.pop(ENV_LOADER, None)
        if index >= 0:
            at.end_of(self._start_code, float(index))

    def _watch_iterator(self, original: Any) -> Any:
        number, collector = self.index, self.waits

        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            try:
                self._holter_loader = float(number(loader))
            except Exception as error:
                collector.fault(error)
            original(self, loader, *args, **kwargs)

        return __init__

    def _watch_next(self, original: Any) -> Any:
        here, collector, code = self.flow.here, self.waits, self._next_code
        before = self._before_next

        def __next__(self: Any) -> Any:  # noqa: N807
            at = here.at
            if at.loading or not collector.on:
                return original(self)
            at.loading = True
            begun = False
            try:
                if at.optimizers or not at.seen:
                    before(at)
                at.seen = False
                at.forward_end = 0
                at.begin(code)
                begun = True
            except Exception as error:
                collector.fault(error)
            try:
                return original(self)
            except StopIteration:
                raise
            except BaseException as error:
                at.fail(error)
                raise
            finally:
                at.loading = False
                try:
                    if begun:
                        at.end_of(code, getattr(self, "_holter_loader", NAN))
                except Exception as error:
                    collector.fault(error)

        return __next__

    def _before_next(self, at: At) -> None:
        if at.optimizers:
            self.before_next()
        if not at.seen:
            self.end_unseen_step()

    # -- where batches are built

    def _watch_fetcher(self, original: Any) -> Any:
        watch, collector = self._watch_collate, self.fetches

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            try:
                self.collate_fn = watch(self.collate_fn)
            except Exception as error:
                collector.fault(error)

        return __init__

    def _watch_collate(self, original: Any) -> Any:
        here, fetching, collector = self.flow.here, self.fetching, self.fetches
        code = self._collate_code(original)

        def collate(samples: Any) -> Any:
            at = here.at
            if at.fetching != 1 or not collector.on:
                return original(samples)
            begun = False
            try:
                fetching.stop(perf_counter_ns())
                at.begin(code)
                begun = True
            except Exception as error:
                collector.fault(error)
            try:
                return original(samples)
            finally:
                try:
                    if begun:
                        at.end_of(code)
                except Exception as error:
                    collector.fault(error)

        return collate

    def _collate_code(self, function: Any) -> int:
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        code = getattr(function, "__code__", None)
        where = f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else ""
        return self.flow.code(Phase.COLLATE, name.replace("<locals>.", "") + where)

    def _watch_fetch(self, original: Any) -> Any:
        here, fetching, collector = self.flow.here, self.fetching, self.fetches
        begin = self._begin_fetch

        def fetch(self: Any, index: Any) -> Any:
            if not collector.on:
                return original(self, index)
            at = here.at
            inside = at.forward
            at.forward = True  # models that a dataset calls are not the one that trains
            at.fetching += 1
            code, samples = 0, 1
            try:
                if at.fetching == 1 and not fetching.began:
                    if self.auto_collation:
                        samples = len(index)
                    code = begin(at)
            except Exception as error:
                collector.fault(error)
            try:
                return original(self, index)
            except BaseException as error:
                if isinstance(error, StopIteration):
                    samples = 0
                else:
                    at.fail(error)
                raise
            finally:
                at.forward = inside
                at.fetching -= 1
                try:
                    if code:
                        fetching.stop(perf_counter_ns())
                        at.end_of(code, float(samples))
                except Exception as error:
                    collector.fault(error)

        return fetch

    def _begin_fetch(self, at: At) -> int:
        sampler = self.sampler
        if sampler is None or sampler.pid != os.getpid():
            self.fetching.forget()
            self.sampler = sampler = StackSampler(self.flow.session, self.fetching, self._fetch_codes)
        if not self._fetch_code:
            self._fetch_code = self.flow.code(Phase.FETCH, "fetch")
        at.begin(self._fetch_code)
        self.fetching.start(perf_counter_ns())
        if sampler.asleep:
            sampler.wake()
        return self._fetch_code

    def _watch_worker(self, original: Any) -> Any:
        flow, collector = self.flow, self.fetches
        place = list(inspect.signature(original).parameters).index("worker_id")
        enter, leave = self._enter_worker, self.stop

        def _worker_loop(*args: Any, **kwargs: Any) -> Any:
            try:
                enter(int(kwargs["worker_id"] if "worker_id" in kwargs else args[place]))
            except Exception as error:
                collector.fault(error)
            try:
                return original(*args, **kwargs)
            finally:
                leave()
                if flow.has_pauses():
                    flow.write_pauses()

        return _worker_loop

    def _enter_worker(self, worker_id: int) -> None:
        """This process is a worker from here on: of all that trains, nothing is watched any more."""
        session = self.flow.session
        parent, _, index = os.environ.pop(ENV_LOADER, "").rpartition(":")
        if index:
            # So that the stages of one loader are not taken for another's.
            self._fetch_code = self.flow.code(Phase.FETCH, f"loader {index}")
        session.become_worker(worker_id, parent or None)
        self._become_worker()
