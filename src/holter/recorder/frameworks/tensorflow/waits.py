"""Finds how long compiled steps wait for tf.data, which no Python code sees.

tf.data keeps the last hundred times between two requests for an element. What the period of the steps
exceeds these times is the wait.
"""

from __future__ import annotations

import statistics
import weakref
from itertools import pairwise
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from holter.recorder.spool.thread_spool import NAN
from holter.schema.phases import ITERATOR_START, NEXT_BATCH, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holter.recorder.session import Session

KEPT = 100
"""Times between requests that tf.data keeps."""
EVERY_NS = 500_000_000
"""Time after which they are read: what is written two seconds late belongs to no step any more."""
LONG_NS = 10_000_000_000
"""tf.data keeps no time from this one on."""
_DATA = int(Phase.DATA_LOADING)


class GraphCall(NamedTuple):
    """One call of a compiled function that takes elements from an iterator."""

    begin: int
    end: int
    requests: int
    """Elements that it requested."""
    step: int


class PipelineWaits:
    """Writes the wait within each call of a compiled function as a DATA_LOADING span of its thread."""

    def __init__(self, session: Session, read: Callable[[Any], Any]) -> None:
        self._session = session
        self._read = read
        """Returns the model proto of an iterator, or None."""
        self._iterator: Callable[[], Any] = lambda: None
        self._calls: list[GraphCall] = []
        """Calls whose wait is unknown so far, the oldest first."""
        self._requests = self._due = 0
        self._computing: list[int] = []
        """What the calls of the last reading took without the wait."""
        self._starts = False
        """Whether the first of the calls is the iterator's first, which fills its buffers."""
        self.seen: bool | None = None
        """Whether tf.data tells these times; None before the first reading."""

    def note(self, iterator: Any, call: GraphCall) -> None:
        """Take a call that has ended, on the training thread."""
        if self._iterator() is not iterator:
            self.flush()
            self._iterator = weakref.ref(iterator)
            self._starts, self._due = True, call.begin + EVERY_NS
        self._calls.append(call)
        self._requests += call.requests
        if call.end >= self._due or self._requests + call.requests > KEPT:
            self._write(iterator, last=False)

    def flush(self) -> None:
        """Write what is known of the calls so far: their iterator takes no more of them for now."""
        if self._calls:
            self._write(self._iterator(), last=True)

    def _write(self, iterator: Any, *, last: bool) -> None:
        began = perf_counter_ns()
        calls, self._calls, self._due = self._calls, [], began + EVERY_NS
        self._requests = 0
        model = None if iterator is None else self._read(iterator)
        self.seen = model is not None if self.seen is None else self.seen
        if model is not None:
            waits = waited(calls, [1000 * int(gap) for gap in model.gap_times])
            known = [call.end - call.begin - wait for call, wait in zip(calls, waits, strict=False)]
            self._computing = known or self._computing
            rest = calls[len(waits) :]
            if last or len(rest) > 1:
                usual = int(statistics.median(self._computing)) if self._computing else None
                waits += [0 if usual is None else call.end - call.begin - usual for call in rest]
            else:
                self._calls, self._requests = rest, sum(call.requests for call in rest)
            thread = self._session.thread_spool()
            for call, wait in zip(calls, waits, strict=False):
                if 0 < wait <= call.end - call.begin:
                    name = self._session.name(ITERATOR_START if self._starts else NEXT_BATCH)
                    thread.add(_DATA, name, call.begin, wait, NAN, call.step)
                self._starts = False
        self._session.thread_spool().spent(perf_counter_ns() - began)


def waited(calls: Sequence[GraphCall], gaps: Sequence[int]) -> list[int]:
    """Return how long calls waited for elements, ns; of all but the last, as far as the times are known.

    From a call's first request to that of the next call, each moment is a wait or lies between two requests.

    Args:
        calls: Consecutive calls, the newest last.
        gaps: Times between the newest requests, ns.
    """
    needed = sum(call.requests for call in calls[:-1])
    inside = calls[-1].requests - 1 if calls else 0
    recent = gaps[: len(gaps) - inside] if inside > 0 else gaps
    periods = [after.begin - call.begin for call, after in pairwise(calls)]
    if needed > len(recent) or any(period >= LONG_NS for period in periods):
        return []
    at, found = len(recent) - needed, []
    for call, period in zip(calls, periods, strict=False):
        apart = sum(recent[at : at + call.requests])
        at += call.requests
        found.append(min(max(period - apart, 0), call.end - call.begin))
    return found
