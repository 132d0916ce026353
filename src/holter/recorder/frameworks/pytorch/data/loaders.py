"""Records data loading in the training process: loaders, their iterators, and waits for batches."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.stepping.adapter_state import NAN
from holter.recorder.patches import hide
from holter.schema.phases import ITERATOR_END, ITERATOR_START, NEXT_BATCH, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.frameworks.pytorch.stepping.step_hooks import ThreadState
    from holter.recorder.patches import Patches

ENV_LOADER = "HOLTER_LOADER"
"""Set while a loader starts its workers: key of this process, colon, index of the loader."""


class Loaders:
    """Times every data loader of this process."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.waits = adapter.breaker("data_loading")
        self.before_next: Callable[[], None] = lambda: None
        """Forgets an optimizer step that raised."""
        self.next_batch: Callable[[Any], None] = lambda iterator: None
        """Called before a request for a batch, unless a single optimizer ends the steps."""
        self.exhausted: Callable[[Any], None] = lambda iterator: None
        """Called when an iterator has no further batch."""
        self.end_unseen_step: Callable[[], None] = lambda: None
        self._loaders: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._count = 0
        self._next_code = adapter.next_code = adapter.code(Phase.DATA_LOADING, NEXT_BATCH)
        adapter.begin_next, adapter.end_next = self._begin_next, self._end_next
        self._start_code = adapter.code(Phase.DATA_LOADING, ITERATOR_START)
        self._end_code = adapter.code(Phase.DATA_LOADING, ITERATOR_END)

    def attach(self, patches: Patches) -> None:
        """Wrap loaders and their iterators."""
        iterators = self.adapter.torch.utils.data.dataloader
        patches.wrap(iterators.DataLoader, "__iter__", self._watch_start)
        patches.before(iterators._BaseDataLoaderIter, "__init__", self._number_iterator, self.waits)
        patches.wrap(iterators._BaseDataLoaderIter, "__next__", self._watch_next)
        # It waits for the workers' batches in work; a loop that leaves an epoch early calls it between steps.
        patches.wrap(iterators._MultiProcessingDataLoaderIter, "_shutdown_workers", self._watch_end)

    def index(self, loader: Any) -> int:
        """Return the number of a loader in its process; journal a new loader."""
        known = self._loaders.get(id(loader))
        if known is not None and known[0]() is loader:
            return known[1]
        index = self._count
        self._count += 1
        self._loaders[id(loader)] = (weakref.ref(loader), index)
        dataset = type(getattr(loader, "dataset", None))
        workers = loader.num_workers
        self.adapter.session.journal(
            "loader",
            {
                "index": index,
                "kind": "multi" if workers else "single",
                "workers": workers,
                "batch_size": getattr(loader, "batch_size", None),
                "batches": _batches(loader),
                "pin_memory": bool(loader.pin_memory),
                "prefetch_factor": loader.prefetch_factor if workers else None,
                "persistent_workers": bool(loader.persistent_workers),
                "dataset": f"{dataset.__module__}.{dataset.__qualname__}",
            },
        )
        return index

    def _watch_start(self, original: Any) -> Any:
        states, breaker = self.adapter.states, self.waits
        start, end = self._begin_start, self._end_start

        def __iter__(self: Any) -> Any:  # noqa: N807
            state = states.current
            outer = not state.loading and breaker.on
            index = -1
            if outer:
                state.loading = True
                try:
                    index = start(self, state)
                except Exception as error:
                    breaker.fault(error)
            try:
                return original(self)
            except BaseException as error:
                if outer:
                    state.fail(error)
                hide(error)
                raise
            finally:
                if outer:
                    state.loading = False
                    try:
                        end(index, state)
                    except Exception as error:
                        breaker.fault(error)

        return __iter__

    def _begin_start(self, loader: Any, state: ThreadState) -> int:
        index = self.index(loader)
        state.seen = True
        self.before_next()
        if loader.num_workers:
            os.environ[ENV_LOADER] = f"{self.adapter.session.process}:{index}"
        state.begin(self._start_code)
        return index

    def _end_start(self, index: int, state: ThreadState) -> None:
        os.environ.pop(ENV_LOADER, None)
        if index >= 0:
            state.end_of(self._start_code, float(index))

    def _watch_end(self, original: Any) -> Any:
        states, breaker, code = self.adapter.states, self.waits, self._end_code

        def _shutdown_workers(self: Any) -> Any:
            state = None
            try:
                if breaker.on and not getattr(self, "_shutdown", True) and not states.current.loading:
                    state = states.current
                    state.begin(code)
            except Exception as error:
                breaker.fault(error)
            try:
                return original(self)
            except BaseException as error:
                hide(error)
                raise
            finally:
                try:
                    if state is not None:
                        state.end_of(code, getattr(self, "_holter_loader", NAN))
                except Exception as error:
                    breaker.fault(error)

        return _shutdown_workers

    def _number_iterator(self, iterator: Any, loader: Any, *_: Any, **__: Any) -> None:
        iterator._holter_loader = float(self.index(loader))

    def _watch_next(self, original: Any) -> Any:
        states, breaker = self.adapter.states, self.waits
        adapter, next_batch, exhausted = self.adapter, self._next_batch, self._exhausted
        begins, ends = adapter.next_begins, adapter.next_ends

        def __next__(self: Any) -> Any:  # noqa: N807
            if not adapter.sole:
                next_batch(self)
            begun = False
            try:
                begun = breaker.on and begins()
                batch = original(self)
                if adapter.on_batch is not None:
                    adapter.on_batch(self, batch)
                return batch
            except StopIteration:
                states.current.seen = True  # the next span belongs to no batch of this loader
                exhausted(self)
                raise
            except BaseException as error:
                if begun:
                    states.current.fail(error)
                hide(error)
                raise
            finally:
                if begun:
                    ends(self)

        return __next__

    def _next_batch(self, iterator: Any) -> None:
        try:
            if self.waits.on and not self.adapter.states.current.loading:
                self.next_batch(iterator)
        except Exception as error:
            self.waits.fault(error)

    def _exhausted(self, iterator: Any) -> None:
        try:
            if self.waits.on:
                self.exhausted(iterator)
        except Exception as error:
            self.waits.fault(error)

    def _begin_next(self) -> bool:
        state = self.adapter.states.current
        if state.loading:
            return False
        state.before_next = state.forward
        state.loading = state.forward = True  # a dataset may call models, which are not the trained one
        state.asked = False
        try:
            if state.optimizers:
                self.before_next()
            if not state.seen:
                self.end_unseen_step()
            state.seen = False
            state.forward_end = 0
            state.begin(self._next_code)
            state.asked = True
        except Exception as error:
            self.waits.fault(error)
        return True

    def _end_next(self, iterator: Any) -> None:
        state = self.adapter.states.current
        state.loading, state.forward = False, state.before_next
        try:
            if state.asked:
                state.end_of(self._next_code, getattr(iterator, "_holter_loader", NAN))
        except Exception as error:
            self.waits.fault(error)


def _batches(loader: Any) -> int | None:
    """Return the number of batches of an epoch; None for a loader without length."""
    try:
        return len(loader)
    except Exception:
        return None
