"""Records the wait for batches of Ray Data, and which stage of its pipeline the training waits for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.spans import timed
from holter.recorder.patches import Patches
from holter.schema.phases import ITERATOR_START, NEXT_BATCH, RAY_DATA, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holter.recorder.guard import CircuitBreaker
    from holter.recorder.session import Session

_ANNOTATION = int(Phase.ANNOTATION)
LEAST_NS = 50_000
"""Shorter parts of a wait are not named."""


def attach(session: Session) -> Callable[[], None]:
    """Record iterators over batches in processes that train; return a function that removes every hook."""
    owner = sys.modules["ray.data._internal.block_batching.iter_batches"].BatchIterator
    patches, breaker = Patches(), session.breaker("ray.data")

    def waiting(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda iterator, *given, **named: _Wait(session, breaker, original(iterator, *given, **named))

    def attributed(result: None, iterator: Any, batch: Any, begin: float, end: float) -> None:
        if _trains(session):
            first, last = int(begin * 1e9), int(end * 1e9)
            for stage, since, until in split(batch.metadata.stage_timings.stages(), first, last):
                code = session.name(RAY_DATA.get(stage, f"{stage} in Ray Data"))
                session.local.thread_spool.add(_ANNOTATION, code, since, until - since)

    # A worker's first request waits until the actor that splits the data has started.
    splitting = sys.modules.get("ray.data._internal.iterator.stream_split_iterator")
    if splitting is not None:
        patches.wrap(
            splitting.StreamSplitDataIterator,
            "_get_dataset_tag",
            lambda original: timed(
                session,
                breaker,
                original,
                Phase.DATA_LOADING,
                lambda *_: ITERATOR_START if _trains(session) else "",
            ),
        )
    patches.wrap(owner, "get_next_batch_context", waiting)
    patches.after(owner, "_attribute_blocked_time", attributed, breaker)
    return patches.undo


class _Wait:
    """The context in which Ray Data waits for a batch, as a span of data loading."""

    __slots__ = ("_breaker", "_code", "_inner", "_session", "_torch")
    _holter_loader = float("nan")
    """In place of the index of a loader."""

    def __init__(self, session: Session, breaker: CircuitBreaker, inner: Any) -> None:
        self._session, self._breaker, self._inner = session, breaker, inner
        self._code, self._torch = 0, False

    def __enter__(self) -> Any:
        session = self._session
        try:
            if self._breaker.on and _trains(session):
                if session.torch_parts is not None:
                    self._torch = session.torch_parts[0].next_begins()
                else:
                    code = session.name(NEXT_BATCH) << 8 | int(Phase.DATA_LOADING)
                    session.local.begin(code)
                    self._code = code
        except Exception as error:
            self._breaker.fault(error)
        return self._inner.__enter__()

    def __exit__(self, *raised: Any) -> Any:
        try:
            return self._inner.__exit__(*raised)
        finally:
            try:
                if self._torch:
                    self._session.torch_parts[0].next_ends(self)
                elif self._code:
                    self._session.local.end_of(self._code)
            except Exception as error:
                self._breaker.fault(error)


def split(
    stages: Iterable[tuple[Any, Iterable[Any]]], begin: int, end: int
) -> Iterator[tuple[str, int, int]]:
    """Yield the stages that a wait was for, as name, begin and end in ns, without overlaps."""
    spans = sorted(
        (int(one.start_s * 1e9), int(one.end_s * 1e9), str(stage.value))
        for stage, many in stages
        for one in many
    )
    for since, until, stage in spans:
        since, until = max(since, begin), min(until, end)
        if until - since >= LEAST_NS:
            yield stage, since, until
            begin = until


def _trains(session: Session) -> bool:
    """Whether this process trains, or is a worker of Ray Train; a driver may only look at its data."""
    if session.identity.recording:
        return True
    context = sys.modules.get("ray.train.v2._internal.execution.context")
    return getattr(context, "_train_context", None) is not None
