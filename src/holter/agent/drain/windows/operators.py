"""Converts a window of torch's profiler into rows of operators, kernels, launches, copies and waits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.agent.drain.clock import Clock
    from holter.agent.drain.windows import Fact
    from holter.store.parquet.columns import Columns

    Ints = NDArray[np.int64]
    Arrays = dict[str, NDArray[Any]]

MAX_HEAD = 256 << 20
"""Bytes of names and details; more is damage."""
_WAITS = {
    "cudaStreamSynchronize": "stream",
    "cuStreamSynchronize": "stream",
    "hipStreamSynchronize": "stream",
    "cudaDeviceSynchronize": "device",
    "cuCtxSynchronize": "device",
    "hipDeviceSynchronize": "device",
    "cudaEventSynchronize": "event",
    "cuEventSynchronize": "event",
    "hipEventSynchronize": "event",
    "cudaMemcpy": "copy",
    "hipMemcpyWithStream": "copy",
}
_LAUNCH = re.compile(r"(cuda|cu|hip)\w*(Launch|Memcpy\w*Async|Memset)", re.IGNORECASE)
_COLLECTIVE = re.compile(r"(?:nccl|rccl)\w*?Kernel_?(?:Generic_?)?([A-Z][A-Za-z]+)?")
_COPY = re.compile(r"(H|D|P)to(H|D|P|A)(?: \((\w+) -> (\w+)\))?")
_HOST = ("operator", "annotation", "python", "module", "runtime", "launch", "sync")
_WORK = ("kernel", "copy", "memset")
_KINDS = (*_HOST, *_WORK, "other")
"""What an event is: the kinds of the table `operators`, and what goes into the other tables."""
_RUNTIME = ("cuda_runtime", "cuda_driver", "runtime", "driver")


def rows(path: Path, fact: Fact, clock: Clock) -> dict[str, Columns]:
    """Return columns by table, without `rank`. Raises `ValueError` for a file that is damaged."""
    names, activities, details, arrays = _read(path)
    kinds = _kinds(arrays, names, activities)
    bounds = np.array(fact.bounds, np.int64)
    start = arrays["start"] - fact.wall_minus_monotonic
    end = start + np.maximum(arrays["duration"], 0)
    # What was open when the window ended has no end of its own, or one before its begin.
    end = np.where(arrays["duration"] < 0, bounds[-1], end)
    host = _among(kinds, _HOST)
    end = np.where(host, np.minimum(end, bounds[-1]), end)
    ours = np.array([is_ours(one) for one in names] or [False])[arrays["name"]]
    # A device was waited for when the window ended; what it did from then on is of steps that came later.
    waited = bounds[-1] + fact.stop_ns
    within = np.where(host, (start < bounds[-1]) & (end > bounds[0]) & ~ours, start < waited)
    begin = np.where(host, np.maximum(start, bounds[0]), start)
    steps = _steps(begin, kinds, arrays, fact)

    def table(kind: tuple[str, ...], /, **more: Any) -> Columns:
        at = np.flatnonzero(_among(kinds, kind) & within)
        at = at[np.argsort(begin[at], kind="stable")]
        given = {
            "time": begin[at] + clock.offset,
            "duration": np.maximum(end - begin, 0)[at],
            "step": steps[at],
        }
        return given | {name: make(at) for name, make in more.items()}

    def name(at: Ints) -> Any:
        return arrays["name"][at], names

    def column(what: str, kind: Any = np.int64) -> Any:
        return lambda at: arrays[what][at].astype(kind)

    def text(choose: Any) -> Any:
        """Return the text that a name gives, for each row."""
        chosen = [choose(one) for one in names]
        return lambda at: (arrays["name"][at], chosen)

    on_host = {"thread": column("thread"), "name": name}
    on_device = {"device": column("device", np.int16), "stream": column("thread", np.int32)}
    correlated = {"correlation": column("correlation")}
    return {
        "operators": table(
            _HOST[:5],
            **on_host,
            kind=lambda at: (kinds[at], _KINDS),
            detail=lambda at: (arrays["detail"][at], details),
        ),
        "launches": table(("launch",), **on_host, **correlated),
        "syncs": table(("sync",), **on_host, kind=text(lambda one: _WAITS.get(one, "device"))),
        "kernels": table(
            ("kernel",),
            **on_device,
            **correlated,
            name=name,
            kind=text(lambda one: "communication" if _COLLECTIVE.match(one) else "compute"),
            collective=text(collective),
        ),
        "memory_operations": table(
            ("copy", "memset"),
            **on_device,
            **correlated,
            kind=text(lambda one: copy_kind(one)[0]),
            memory=text(lambda one: copy_kind(one)[1]),
            bytes=column("bytes"),
        ),
    }


def collective(name: str) -> str:
    """Return which collective a kernel of NCCL or RCCL runs, as `allreduce`; empty for any other kernel."""
    match = _COLLECTIVE.match(name)
    return (match[1] or "").lower() if match else ""


def copy_kind(name: str) -> tuple[str, str]:
    """Return kind and memory of what CUPTI calls `Memcpy HtoD (Pageable -> Device)`, `Memset (Device)`."""
    if name.startswith("Memset"):
        return "memset", ""
    match = _COPY.search(name)
    if match is None:
        return "d2d", ""
    ends = match[1] + match[2].replace("A", "D")
    kind = "p2p" if "P" in ends else f"{ends[0]}2{ends[1]}".lower()
    memory = next((word.lower() for word in match.groups()[2:] if word in ("Pageable", "Pinned")), "")
    return kind, memory


def _read(path: Path) -> tuple[list[str], list[str], list[str], Arrays]:
    """Return names, kinds of activity, details and arrays of one length."""
    with open(path, "rb") as file:
        line = file.readline(MAX_HEAD)
        head = json.loads(line)
        count = int(head["count"])
        if not 0 <= count <= path.stat().st_size:
            raise ValueError(f"{path.name}: {count} events are more than the file can hold")
        arrays: Arrays = {}
        for name, code in head["columns"]:
            if code not in ("b", "i", "q"):
                raise ValueError(f"{path.name}: column {name} has the unknown type {code!r}")
            array = np.fromfile(file, {"b": np.int8, "i": np.int32, "q": np.int64}[code], count)
            if len(array) != count:
                raise ValueError(f"{path.name}: column {name} has {len(array)} of {count} values")
            arrays[str(name)] = array
    texts = {key: [str(text) for text in head[key]] for key in ("names", "kinds", "details")}
    if missing := {"start", "duration", "thread", "name"} - set(arrays):
        raise ValueError(f"{path.name}: there is no column {', '.join(sorted(missing))}")
    for column, key in (("name", "names"), ("kind", "kinds"), ("detail", "details")):
        codes = arrays.get(column, np.zeros(0))
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(texts[key]):
            raise ValueError(f"{path.name}: column {column} points beyond its texts")
    for column in ("device", "correlation", "bytes", "detail"):
        arrays.setdefault(column, np.zeros(count, np.int64))
    if "kind" not in arrays:  # before torch 2.8, which does not say
        texts["kinds"] = ["", "kernel"]
        arrays["kind"] = arrays.get("on_device", np.zeros(count, np.int8))
    return texts["names"], texts["kinds"], texts["details"] or [""], arrays


def _kinds(arrays: Arrays, names: list[str], activities: list[str]) -> NDArray[np.int8]:
    """Return for each event what it is, as its place in `_KINDS`."""
    pairs = arrays["name"].astype(np.int64) * len(activities) + arrays["kind"]
    # Few names, many events: each pair of name and activity is looked at once.
    found = np.zeros(len(names) * len(activities), np.int8)
    for pair in np.flatnonzero(np.bincount(pairs, minlength=len(found))):
        name, number = divmod(int(pair), len(activities))
        found[pair] = _KINDS.index(_kind(activities[number], names[name]))
    kinds: NDArray[np.int8] = found[pairs]
    return kinds


def _among(kinds: NDArray[np.int8], wanted: tuple[str, ...]) -> NDArray[np.bool_]:
    chosen: NDArray[np.bool_] = np.array([kind in wanted for kind in _KINDS])[kinds]
    return chosen


_RECORDER = Path(__file__).resolve().parents[3] / "recorder"


def is_ours(name: str) -> bool:
    """Tell whether an event is a function of the recorder.

    The profiler shortens paths by an entry of `sys.path`, if one fits. A script may have files of its own
    below `holter/recorder/`.
    """
    file = re.split(r"\(\d+\): ", name, maxsplit=1)[0]
    if "recorder" not in file:
        return False
    told = [parent / file for parent in _RECORDER.parents[1:]]
    return any(path.is_relative_to(_RECORDER) and path.is_file() for path in told)


def _kind(activity: str, name: str) -> str:
    if name.startswith("Memcpy") and activity in ("gpu_memcpy", "kernel"):
        return "copy"
    if name.startswith("Memset") and activity in ("gpu_memset", "kernel"):
        return "memset"
    if activity in ("kernel", "concurrent_kernel"):
        return "kernel"
    if activity in _RUNTIME or (not activity and re.match(r"(cuda|cu|hip)[A-Z]", name)):
        return "sync" if name in _WAITS else "launch" if _LAUNCH.match(name) else "runtime"
    if activity == "user_annotation":
        return "annotation"
    if activity == "python_function":
        return "module" if name.startswith("nn.Module:") else "python"
    return "operator" if activity in ("cpu_op", "") else "other" if activity.startswith("gpu_") else "runtime"


def _steps(begin: Ints, kinds: NDArray[np.int8], arrays: Arrays, fact: Fact) -> NDArray[np.int32]:
    """Return the step of each event; what a device does belongs to the step that launched it."""
    steps = fact.steps(begin)
    launches, work = np.flatnonzero(_among(kinds, ("launch", "sync"))), np.flatnonzero(_among(kinds, _WORK))
    if len(launches) and len(work):
        order = launches[np.argsort(arrays["correlation"][launches], kind="stable")]
        known = arrays["correlation"][order]
        wanted = arrays["correlation"][work]
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = (known[place] == wanted) & (wanted != 0)
        steps[work[found]] = steps[order[place[found]]]
    return steps
