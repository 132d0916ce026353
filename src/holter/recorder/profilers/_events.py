"""Converts the events of torch's profiler to columns of integers, in pieces, while the training continues.

The file contains one line of JSON, then arrays of `count` native integers each, in the order and with the
types that the line lists. The agent does the rest of the work.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections import defaultdict
from time import sleep, thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Makers = list[tuple[str, str, Callable[[list[Any]], Iterable[int]]]]

AT_ONCE = 5000
"""Events converted without a pause: 5 ms of work, after which Python switches threads."""
_PAUSE = 0.25
"""Pause after each piece, as a share of its time, so that the training gets the interpreter."""
MAX_STACK = 20
"""Innermost frames of a stack that are kept."""
_ARGUED = ("aten::convolution", "aten::_scaled_dot_product_")
"""Prefixes of operators whose amount of work depends on more than shapes."""
_MOST_NUMBERS = 8
"""Longest list among kept arguments, such as strides and paddings."""
_BYTES = re.compile(r'"bytes": (\d+)')
_COPIES = ("gpu_memcpy", "gpu_memset")
_WORK = ("kernel", "concurrent_kernel", *_COPIES)


class Numbers:
    """Numbers texts in the order in which they come."""

    def __init__(self) -> None:
        self.ids: defaultdict[str, int] = defaultdict(lambda: len(self.ids))

    def of(self, texts: Iterable[str]) -> Iterable[int]:
        return map(self.ids.__getitem__, texts)


def write(path: str, events: list[Any], *, traced: bool, device: bool, shapes: bool, stacks: bool) -> bool:
    """Write events, or activities if `traced`. Only events contain `shapes` and `stacks` of operators.

    `device`: whether the training uses an accelerator. Returns whether it was active.
    """
    texts = {"names": Numbers(), "kinds": Numbers(), "details": Numbers()}
    makers = _of_activities(texts, device) if traced else _of_events(texts, device, shapes, stacks)
    columns = {column: array(code) for column, code, _ in makers}
    for first in range(0, len(events), AT_ONCE):
        began = thread_time()
        part = events[first : first + AT_ONCE]
        for column, _, make in makers:
            columns[column].extend(make(part))
        sleep((thread_time() - began) * _PAUSE)
    head = {
        "count": len(events),
        "columns": [[name, column.typecode] for name, column in columns.items()],
        **{key: list(numbers.ids) for key, numbers in texts.items()},
    }
    with open(path, "wb") as file:
        file.write(json.dumps(head, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
        for values in columns.values():
            values.tofile(file)
    return any(columns.get("on_device", ())) or not texts["kinds"].ids.keys().isdisjoint(_WORK)


def free(events: list[Any]) -> None:
    """Free events in pieces."""
    while events:
        began = thread_time()
        del events[-AT_ONCE:]
        sleep((thread_time() - began) * _PAUSE)


def _of_activities(texts: dict[str, Numbers], device: bool) -> Makers:
    """Return the functions that make columns of activities, with a fifth of the work of events."""
    methods = sys.modules["torch"]._C._autograd._ITraceActivity
    names: list[int] = []
    kinds: list[int | None] = []
    operators: dict[int, int] = {}
    seen: set[int] = set()

    def name(part: list[Any]) -> Iterable[int]:
        names[:] = texts["names"].of(map(methods.name, part))
        return names

    def kind(part: list[Any]) -> Iterable[int]:
        # `type` is the most expensive call. Nothing else has the name of an operator, such as `aten::mm`,
        # except a range to which a script gives that name.
        kinds[:] = map(operators.get, names)
        for at in [at for at, known in enumerate(kinds) if known is None]:
            type_name = methods.type(part[at])
            kinds[at] = number = texts["kinds"].ids[type_name]
            if names[at] not in seen:
                seen.add(names[at])
                if type_name == "cpu_op" and "::" in methods.name(part[at]):
                    operators[names[at]] = number
        return kinds  # type: ignore[return-value]

    def size(part: list[Any]) -> Iterable[int]:
        copies = {texts["kinds"].ids.get(one, -1) for one in _COPIES}
        return (_bytes(one) if number in copies else 0 for one, number in zip(part, kinds, strict=True))

    makers: Makers = [
        ("name", "i", name),
        ("kind", "i", kind),
        ("start", "q", lambda part: map(methods.timestamp, part)),
        ("duration", "q", lambda part: map(methods.duration, part)),
        ("thread", "q", lambda part: map(methods.resource_id, part)),
    ]
    if device:
        makers += [
            ("device", "q", lambda part: map(methods.device_id, part)),
            ("correlation", "q", lambda part: map(methods.correlation_id, part)),
            ("bytes", "q", size),
        ]
    return makers


def _bytes(copy: Any) -> int:
    found = _BYTES.search(copy.metadata_json())
    return int(found[1]) if found else 0


def _of_events(texts: dict[str, Numbers], device: bool, shapes: bool, stacks: bool) -> Makers:
    """Return the functions that make columns of events."""
    methods = sys.modules["torch"]._C._autograd._KinetoEvent
    has_kinds = hasattr(methods, "activity_type")
    has_arguments = hasattr(methods, "concrete_inputs")

    def detail(event: Any) -> str:
        found: dict[str, object] = {}
        if shapes and event.shapes():
            # With the shapes of tensors in lists, which collectives take, if torch has them.
            found["shapes"] = getattr(event, "structured_input_shapes", event.shapes)()
            found["types"] = event.dtypes()
            if has_arguments and methods.name(event).startswith(_ARGUED):
                found["concrete"] = list(map(_plain, event.concrete_inputs()))
        if stacks and event.stack():
            found["stack"] = event.stack()[:MAX_STACK]
        return json.dumps(found, separators=(",", ":")) if found else ""

    makers: Makers = [
        ("name", "i", lambda part: texts["names"].of(map(methods.name, part))),
        ("start", "q", lambda part: map(methods.start_ns, part)),
        ("duration", "q", lambda part: map(methods.duration_ns, part)),
        ("thread", "q", lambda part: map(methods.device_resource_id, part)),
    ]
    if has_kinds:
        makers.append(("kind", "i", lambda part: texts["kinds"].of(map(methods.activity_type, part))))
    if device:
        makers += [
            ("device", "q", lambda part: map(methods.device_index, part)),
            ("correlation", "q", lambda part: map(methods.correlation_id, part)),
            ("bytes", "q", lambda part: map(methods.nbytes, part)),
        ]
    if device or not has_kinds:
        makers.append(("on_device", "b", lambda part: (one.device_type().value != 0 for one in part)))
    if shapes or stacks:
        makers.append(("detail", "i", lambda part: texts["details"].of(map(detail, part))))
    return makers


def _plain(argument: Any) -> Any:
    """Return an argument that is an integer, a flag, or a short list of them; None for others."""
    if isinstance(argument, list) and len(argument) <= _MOST_NUMBERS:
        return [one if isinstance(one, int) else None for one in argument]
    return argument if isinstance(argument, int) else None
