"""Columns of native integers from what torch's profiler found, made bit by bit beside the training.

The file: one line of JSON, then one array after the other of `count` native integers, in the order and of the
types that the line names. Everything that takes longer is done by the agent.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections import defaultdict
from time import sleep, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Makers = list[tuple[str, str, Callable[[list[Any]], Iterable[int]]]]

AT_ONCE = 5000
"""Events of which columns are made without a pause: 5 ms, after which Python changes threads anyway."""
MAX_STACK = 20
"""Frames kept of a stack, innermost first."""
_BYTES = re.compile(r'"bytes": (\d+)')
_COPIES = ("gpu_memcpy", "gpu_memset")
_WORK = ("kernel", "concurrent_kernel", *_COPIES)


class Found(NamedTuple):
    """What a window holds."""

    events: int
    on_device: bool
    """Whether an accelerator did anything."""


class Numbers:
    """Numbers texts in the order in which they come."""

    def __init__(self) -> None:
        self.ids: defaultdict[str, int] = defaultdict(lambda: len(self.ids))

    def of(self, texts: Iterable[str]) -> Iterable[int]:
        return map(self.ids.__getitem__, texts)


def write(path: str, result: Any, *, traced: bool, device: bool, shapes: bool, stacks: bool) -> Found:
    """Write what torch's profiler returned; `traced` when it made no events, but activities alone.

    `device`: an accelerator is there. `shapes` and `stacks` of operators are told by events only.
    """
    texts = {"names": Numbers(), "kinds": Numbers(), "details": Numbers()}
    if traced:
        events, makers = result.trace_activities(), _of_activities(texts, device)
    else:
        events, makers = result.events(), _of_events(texts, device, shapes, stacks)
    columns = {column: array(code) for column, code, _ in makers}
    for first in range(0, len(events), AT_ONCE):
        began = thread_time()
        part = events[first : first + AT_ONCE]
        for column, _, make in makers:
            columns[column].extend(make(part))
        events[first : first + AT_ONCE] = [None] * len(part)  # freed bit by bit, too
        del part
        # The training needs the interpreter, too: a third of the time is its own.
        sleep((thread_time() - began) / 2)
    head = {
        "count": len(events),
        "columns": [[name, column.typecode] for name, column in columns.items()],
        **{key: list(numbers.ids) for key, numbers in texts.items()},
    }
    with open(path, "wb") as file:
        file.write(json.dumps(head, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
        for values in columns.values():
            values.tofile(file)
    return Found(
        len(events), any(columns.get("on_device", ())) or not texts["kinds"].ids.keys().isdisjoint(_WORK)
    )


def _of_activities(texts: dict[str, Numbers], device: bool) -> Makers:
    """Return how columns are made of activities, a fifth of the work of events."""
    methods = sys.modules["torch"]._C._autograd._ITraceActivity
    makers: Makers = [
        ("name", "i", lambda part: texts["names"].of(map(methods.name, part))),
        ("kind", "i", lambda part: texts["kinds"].of(map(methods.type, part))),
        ("start", "q", lambda part: map(methods.timestamp, part)),
        ("duration", "q", lambda part: map(methods.duration, part)),
        ("thread", "q", lambda part: map(methods.resource_id, part)),
    ]
    if device:
        makers += [
            ("device", "q", lambda part: map(methods.device_id, part)),
            ("correlation", "q", lambda part: map(methods.correlation_id, part)),
            ("bytes", "q", lambda part: map(_bytes, part)),
        ]
    return makers


def _bytes(activity: Any) -> int:
    if activity.type() not in _COPIES:
        return 0
    found = _BYTES.search(activity.metadata_json())
    return int(found[1]) if found else 0


def _of_events(texts: dict[str, Numbers], device: bool, shapes: bool, stacks: bool) -> Makers:
    """Return how columns are made of events."""
    methods = sys.modules["torch"]._C._autograd._KinetoEvent
    telling = hasattr(methods, "activity_type")

    def detail(event: Any) -> str:
        found: dict[str, Any] = {}
        if shapes and event.shapes():
            # With those of the tensors in lists, as collectives take them, where torch tells.
            found["shapes"] = getattr(event, "structured_input_shapes", event.shapes)()
            found["types"] = event.dtypes()
        if stacks and event.stack():
            found["stack"] = event.stack()[:MAX_STACK]
        return json.dumps(found, separators=(",", ":")) if found else ""

    makers: Makers = [
        ("name", "i", lambda part: texts["names"].of(map(methods.name, part))),
        ("start", "q", lambda part: map(methods.start_ns, part)),
        ("duration", "q", lambda part: map(methods.duration_ns, part)),
        ("thread", "q", lambda part: map(methods.device_resource_id, part)),
    ]
    if telling:
        makers.append(("kind", "i", lambda part: texts["kinds"].of(map(methods.activity_type, part))))
    if device:
        makers += [
            ("device", "q", lambda part: map(methods.device_index, part)),
            ("correlation", "q", lambda part: map(methods.correlation_id, part)),
            ("bytes", "q", lambda part: map(methods.nbytes, part)),
        ]
    if device or not telling:
        makers.append(("on_device", "b", lambda part: (one.device_type().value != 0 for one in part)))
    if shapes or stacks:
        makers.append(("detail", "i", lambda part: texts["details"].of(map(detail, part))))
    return makers
