"""Operators as torch tells its observers of them, noted by compiled code: far cheaper than torch's profiler.

It needs three functions of torch's library. Their names tell the types of what they take, but not how these
lie in memory. The header that torch brings does, so its declarations are compared with those that
`observer.cpp` was written for. Where anything differs, torch's own profiler serves.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from pathlib import Path
from typing import Any

from holter.schema import compiled

MAX_EVENTS = 9_000_000
"""Of one window: what the agent makes rows of at once."""
BYTES = 60
"""Of memory that an event takes, with its file, which lies in memory, too."""
_FUNCTIONS = (
    "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
    "_ZN2at14removeCallbackEm",
    "_ZNK2at14RecordFunction4nameEv",
)
_DECLARED = (
    "struct ObserverContext { virtual ~ObserverContext() = default; "
    "protected: ObserverContext() = default; };",
    "using StartCallback = std::unique_ptr<ObserverContext> (*)(const RecordFunction&);",
    "using EndCallback = void (*)(const RecordFunction&, ObserverContext*);",
    "private: StartCallback start_; EndCallback end_; double sampling_prob_ = 1.0; "
    "std::array<bool, static_cast<size_t>(RecordScope::NUM_SCOPES)> scopes_ = {}; "
    "bool needs_inputs_ = false; bool needs_outputs_ = false; bool needs_ids_ = false; };",
    "enum class C10_API_ENUM RecordScope : uint8_t { FUNCTION = 0, BACKWARD_FUNCTION, TORCHSCRIPT_FUNCTION, "
    "KERNEL_FUNCTION_DTYPE, CUSTOM_CLASS, BUILD_FEATURE, LITE_INTERPRETER, USER_SCOPE, STATIC_RUNTIME_OP, "
    "STATIC_RUNTIME_MODEL, NUM_SCOPES, };",
)
_USER_SCOPE = 7
_KINDS = ("cpu_op", "user_annotation")
_COLUMNS = (("name", "i"), ("kind", "i"), ("start", "q"), ("duration", "q"), ("thread", "q"))
_SOURCE = Path(__file__).with_name("observer.cpp")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def is_compiled() -> bool:
    """Return whether the build has compiled the observer."""
    return compiled.load(_SOURCE) is not None


def load(torch: Any) -> Observer | None:
    """Return what observes this torch; None where it is not compiled, or this torch is unknown."""
    if _loaded:
        return _loaded[0]
    folder = Path(torch.__file__).parent
    try:
        header = (folder / "include" / "ATen" / "record_function.h").read_text(
            encoding="utf-8", errors="replace"
        )
        if not _as_expected(header) or (library := compiled.load(_SOURCE)) is None:
            return None
        theirs = ctypes.CDLL(str(folder / "lib" / "libtorch_cpu.so"), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        addresses = [ctypes.cast(getattr(theirs, name), ctypes.c_void_p) for name in _FUNCTIONS]
        library.holter_observer_know(*addresses)
        library.holter_observer_begin.argtypes = [ctypes.c_int64, ctypes.c_int]
        library.holter_observer_events.restype = ctypes.c_int64
    except (OSError, AttributeError):
        return None
    _loaded.append(found := Observer(library))
    os.register_at_fork(after_in_child=found.forget)
    return found


def _as_expected(header: str) -> bool:
    text = " ".join(_COMMENT.sub(" ", header).split())
    return all(declared in text for declared in _DECLARED)


class Observer:
    """The compiled functions, none of which holds the interpreter; for one window until it is freed."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.busy = False
        """Whether what was collected has not been freed."""

    def begin(self, most: int) -> None:
        """Begin to collect on all threads, about `most` events at most."""
        self.busy = True
        self._library.holter_observer_begin(most, _USER_SCOPE)

    def events(self) -> int:
        """Return how many events there is room taken for, at most."""
        found: int = self._library.holter_observer_events()
        return found

    def end(self) -> None:
        """End it. What was open then has the duration -1."""
        self._library.holter_observer_end()

    def write(self, path: str) -> tuple[int, int]:
        """Write what was collected, as `_events.write` does but by the monotonic clock.

        Returns:
            How many events there were, and how many more found no room.
        """
        counts = (ctypes.c_int64 * 4)()
        self._library.holter_observer_counts(counts)
        events, names, size, lost = counts
        texts = ctypes.create_string_buffer(size)
        self._library.holter_observer_names(texts)
        head = {
            "count": events,
            "clock": "monotonic",
            "columns": _COLUMNS,
            "names": _split(texts.raw, names),
            "kinds": _KINDS,
            "details": (),
        }
        with open(path, "wb", buffering=0) as file:
            file.write(json.dumps(head, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
            if not self._library.holter_observer_write(file.fileno()):
                raise OSError(f"{path} could not be written")
        return events, lost

    def free(self) -> None:
        """Free what was collected."""
        self._library.holter_observer_free()
        self.forget()

    def forget(self) -> None:
        """Nothing is collected here: it was freed, or is the parent's."""
        self.busy = False


_loaded: list[Observer] = []


def _split(texts: bytes, count: int) -> list[str]:
    found, at = [], 0
    for _ in range(count):
        end = at + 4 + int.from_bytes(texts[at : at + 4], "little")
        found.append(texts[at + 4 : end].decode("utf-8", "replace"))
        at = end
    return found
