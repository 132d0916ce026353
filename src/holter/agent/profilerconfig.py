"""Read SageMaker's `profilerconfig.json` into the windows it asks for; its values are never evaluated."""

from __future__ import annotations

import ast
import json
import math
import os
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.schema.metrics import INTERVALS_MS
from holter.schema.windows import PYTHON, TIMERS, Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.store.documents import Document

VARIABLE = "SMPROFILER_CONFIG_PATH"
"""Environment variable that names the file in SageMaker's containers."""
MAX_BYTES = 1 << 20
_MAX_TEXT = 4096

CATEGORIES = {
    "DetailedProfilingConfig": "operators",
    "PythonProfilingConfig": "python",
    "HorovodProfilingConfig": "operators",
    "SMDataParallelProfilingConfig": "operators",
    "DataloaderProfilingConfig": "dataloader",
}
"""What each category is here. Collectives of every library are among the operators.

Windows over the same steps follow one another; that of data loading, which needs none, comes last."""
_OF_FILES = (
    "LocalPath",
    "RotateMaxFileSizeInBytes",
    "RotateFileCloseIntervalInSeconds",
    "FileOpenFailThreshold",
)
_OF_RECORDING = ("ProfilerEnabled", "CPUProfilingDuration", "SMPFileRotationSecs")
_TOP = ("DisableProfiler", "ProfilingIntervalInMilliseconds", "ProfilingParameters", "S3OutputPath")
_RANGE = ("StartStep", "NumSteps", "StartTimeInSecSinceEpoch", "DurationInSeconds", "Duration")
LOADER_EVENTS = (
    *(
        f"_{kind}DataLoaderIter{what}"
        for kind in ("MultiProcessing", "SingleProcess")
        for what in ("::GetNext", ".__init__")
    ),
    "next batch",
    "iterator start",
)
"""What a window of data loading sees, under the names that SageMaker gives it and under ours."""
_EXTRAS = {"dataloader": ("MetricsRegex",), "python": ("ProfilerName", "cProfileTimer")}


@dataclass(frozen=True)
class ProfilerSettings:
    """What a `profilerconfig.json` asks for."""

    windows: tuple[Request, ...] = ()
    interval_ms: int | None = None
    """How often the machine is sampled; None: not said."""
    disabled: bool = False
    problems: tuple[str, ...] = ()
    """Why something is off: one line for each, naming the entry, the value, what is valid."""
    notices: tuple[str, ...] = ()
    """What has no effect."""


@dataclass
class _Reading:
    windows: list[Request] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def is_profiler_config(document: object) -> bool:
    """Whether a JSON document is one of these, and not that of a Debugger hook."""
    return isinstance(document, dict) and bool(
        {key.lower() for key in _TOP[:3]} & {key.lower() for key in document}
    )


class WatchedFile:
    """A file that may change while the job runs: looked at often, read when it changed."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._stamp = self._stamped()
        self._known = self._read()

    def changed(self) -> ProfilerSettings | None:
        """Return what it asks for now, when that is something else than before; nothing once it is gone."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        before, self._known = self._known, self._read()
        return None if self._known == before else self._known

    def _stamped(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path) if self.path else None
        except OSError:
            return None
        return None if found is None else (found.st_mtime_ns, found.st_size)

    def _read(self) -> ProfilerSettings:
        return ProfilerSettings() if self.path is None or self._stamp is None else load(self.path)


def load(path: str | Path) -> ProfilerSettings:
    """Read a file; one that cannot be read or is not JSON asks for nothing, and `problems` say why."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
        document = json.loads(text.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        return ProfilerSettings(problems=(f"{path}: {getattr(error, 'strerror', None) or error}",))
    if not isinstance(document, dict):
        return ProfilerSettings(problems=(f"{path}: not a JSON object but {_short(document)}",))
    return read(document)


def read(document: Document) -> ProfilerSettings:
    """Read a document: keys in any case, numbers as texts too; a bad category is off, the others are not."""
    reading = _Reading()
    top = _entries(document, _TOP, "profilerconfig.json", reading)
    disabled = _boolean(top.get("DisableProfiler", False), reading)
    interval = _interval(top.get("ProfilingIntervalInMilliseconds"), reading)
    if "S3OutputPath" in top:
        reading.notices.append("S3OutputPath has no effect; the option --store says where jobs are kept")
    parameters = top.get("ProfilingParameters") or {}
    if not isinstance(parameters, dict):
        reading.problems.append(f"ProfilingParameters must be an object, not {_short(parameters)}")
        parameters = {}
    known = (*CATEGORIES, *_OF_FILES, *_OF_RECORDING)
    found = _entries(parameters, known, "ProfilingParameters", reading)
    for category in () if disabled else CATEGORIES:
        if found.get(category) not in (None, "", {}):
            try:
                window = _window(category, found[category], reading)
            except ValueError as error:
                reading.problems.append(f"{category} is off: {error}")
                continue
            if window is not None and window not in reading.windows:
                reading.windows.append(window)
    if disabled:
        reading.notices.append("DisableProfiler: no window is opened")
    return ProfilerSettings(
        tuple(reading.windows), interval, disabled, tuple(reading.problems), tuple(reading.notices)
    )


def _window(category: str, given: Any, reading: _Reading) -> Request | None:
    """Read one category; raises `ValueError` saying what is wrong with it, None when it has no range."""
    profiler = CATEGORIES[category]
    entries = _entries(_dictionary(given), (*_RANGE, *_EXTRAS.get(profiler, ())), category, reading)
    parameters = _python(entries) if profiler == "python" else _dataloader(entries)
    if profiler not in _EXTRAS:
        parameters = {}
    length = "Duration" if "DurationInSeconds" not in entries else "DurationInSeconds"
    request = Request(
        profiler,
        start_step=_whole(entries, "StartStep"),
        steps=_whole(entries, "NumSteps"),
        start_ns=_whole(entries, "StartTimeInSecSinceEpoch", 1e9),
        duration_ns=_whole(entries, length, 1e9),
        parameters=parameters,
    )
    regex = re.compile(parameters.get("names", ""), re.IGNORECASE)
    if not any(map(regex.match, LOADER_EVENTS)):
        events = ", ".join(LOADER_EVENTS)
        reading.notices.append(
            f"{category}: no event of a data loader begins as MetricsRegex {_short(regex.pattern)} wants, so "
            f"its window never opens; there are: {events}"
        )
        return None
    if not (request.by_steps or request.by_time):
        reading.notices.append(f"{category} names neither steps nor a time, so its window never opens")
        return None
    return request


def _python(entries: Document) -> dict[str, str]:
    name = _choice(entries, "ProfilerName", PYTHON)
    timer = _choice(entries, "cProfileTimer", TIMERS)
    return {"profiler": name} if name == "pyinstrument" else {"profiler": name, "timer": timer}


def _dataloader(entries: Document) -> dict[str, str]:
    regex = entries.get("MetricsRegex", ".*")
    try:
        re.compile(regex)
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"MetricsRegex {_short(regex)} is no regular expression: {error}") from None
    return {} if regex == ".*" else {"names": regex}


def _dictionary(given: Any) -> Document:
    """Read a category: an object, or a text that holds one as JSON or as a Python literal."""
    if isinstance(given, dict):
        return given
    if isinstance(given, str) and len(given) <= _MAX_TEXT:
        for reader in (json.loads, ast.literal_eval):
            try:
                found = reader(given)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    raise ValueError(f"{_short(given)} is no dictionary")


def _entries(given: Document, valid: Iterable[str], where: str, reading: _Reading) -> Document:
    """Return entries under the spelling that is documented; others are reported."""
    spelled = {key.lower(): key for key in valid}
    found = {}
    for key, value in given.items():
        name = spelled.get(str(key).lower())
        if name is None:
            near = get_close_matches(str(key).lower(), spelled, n=1)
            hint = f" (did you mean {spelled[near[0]]}?)" if near else ""
            reading.notices.append(f"{where}: unknown entry {_short(key)}{hint} has no effect")
        elif value is not None:
            found[name] = value
    return found


def _whole(entries: Document, key: str, scale: float = 1) -> int | None:
    """Return a number times `scale`, which must be whole then or is rounded when `scale` is not 1."""
    given = entries.get(key)
    if given is None:
        return None
    try:
        number = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or (scale == 1 and number != int(number)):
        raise ValueError(f"{key} {_short(given)} is no {'whole ' if scale == 1 else ''}number")
    return round(number * scale)


def _choice(entries: Document, key: str, valid: tuple[str, ...]) -> str:
    given = entries.get(key, valid[0])
    word = str(given).strip().lower()
    if word not in valid:
        near = get_close_matches(word, valid, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"{key} {_short(given)} is not known{hint}; valid: {', '.join(valid)}")
    return word


def _boolean(given: Any, reading: _Reading) -> bool:
    word = str(given).strip().lower()
    if word not in ("true", "false", "1", "0"):
        reading.problems.append(f"DisableProfiler {_short(given)} is neither true nor false")
    return word in ("true", "1")


def _interval(given: Any, reading: _Reading) -> int | None:
    if given is None:
        return None
    try:
        found = int(str(given))
    except ValueError:
        found = 0
    if found not in INTERVALS_MS:
        valid = ", ".join(map(str, INTERVALS_MS))
        reading.problems.append(
            f"ProfilingIntervalInMilliseconds {_short(given)} is not valid; valid: {valid}"
        )
        return None
    return found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
