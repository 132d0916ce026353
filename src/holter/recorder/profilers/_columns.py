"""Events of torch's profiler as columns of native integers, made bit by bit while the training goes on."""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from functools import partial
from time import sleep, thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HOST = (("start", "start_ns"), ("duration", "duration_ns"), ("thread", "device_resource_id"))
DEVICE = (
    ("device", "device_index"),
    ("correlation", "correlation_id"),
    ("bytes", "nbytes"),
)
"""Columns that mean something only where an accelerator works, and the methods of torch's events."""
AT_ONCE = 1000
"""Events of which columns are made without a pause, some milliseconds."""
MAX_STACK = 20
"""Frames kept of a stack, innermost first."""


class Columns:
    """Columns of one window's events: `add` them, then `write` the file."""

    def __init__(self, methods: Any, *, device: bool, shapes: bool, stacks: bool) -> None:
        self._shapes, self._stacks = shapes, stacks
        self._names, self._kinds, self._details = _Numbers(), _Numbers(), _Numbers()
        makers: list[tuple[str, str, Callable[[list[Any]], Iterable[int]]]] = [
            ("name", "i", lambda part: self._names.of(map(methods.name, part)))
        ]
        if hasattr(methods, "activity_type"):
            makers.append(("kind", "i", lambda part: self._kinds.of(map(methods.activity_type, part))))
        for column, method in HOST + (DEVICE if device else ()):
            makers.append((column, "q", partial(map, getattr(methods, method))))
        if device or not hasattr(methods, "activity_type"):
            makers.append(("on_device", "b", lambda part: (one.device_type().value != 0 for one in part)))
        if shapes or stacks:
            makers.append(("detail", "i", lambda part: self._details.of(map(self._detail, part))))
        self._makers = [(column, make) for column, _, make in makers]
        self._columns = {column: array(code) for column, code, _ in makers}
        self.count = 0
        self._parts: list[tuple[int, int]] = []

    def add(self, events: list[Any], end_ns: int) -> None:
        """Take over events of torch, `_KinetoEvent`, of a part that ended then (wall clock)."""
        for first in range(0, len(events), AT_ONCE):
            began = thread_time()
            part = events[first : first + AT_ONCE]
            for column, make in self._makers:
                self._columns[column].extend(make(part))
            # The training needs the interpreter, too: half of the time is its own.
            sleep(thread_time() - began)
        self.count += len(events)
        self._parts.append((self.count, end_ns))

    def write(self, path: str) -> None:
        """Write the file. Raises `OSError`."""
        head = {
            "count": self.count,
            "parts": self._parts,
            "columns": [[name, column.typecode] for name, column in self._columns.items()],
            "names": list(self._names.ids),
            "kinds": list(self._kinds.ids),
            "details": list(self._details.ids),
        }
        with open(path, "wb") as file:
            file.write(json.dumps(head, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
            for values in self._columns.values():
                values.tofile(file)

    @property
    def on_device(self) -> bool:
        """Whether an accelerator did anything."""
        return any(self._columns.get("on_device", ()))

    def _detail(self, event: Any) -> str:
        found: dict[str, Any] = {}
        if self._shapes and event.shapes():
            found["shapes"] = event.shapes()
            found["types"] = event.dtypes()
        if self._stacks and event.stack():
            found["stack"] = event.stack()[:MAX_STACK]
        return json.dumps(found, separators=(",", ":")) if found else ""


class _Numbers:
    """Numbers texts in the order in which they come."""

    def __init__(self) -> None:
        self.ids: defaultdict[str, int] = defaultdict(lambda: len(self.ids))

    def of(self, texts: Iterable[str]) -> Iterable[int]:
        return map(self.ids.__getitem__, texts)
