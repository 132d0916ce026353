"""Profiling windows: requests, orders, and the page that passes them to a running process."""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PROFILERS = ("operators", "python", "dataloader")
"""What can be profiled: operators and kernels, Python functions, workers of data loaders."""
MAX_STEPS = 10_000
"""Steps of one window at most: it is for a closer look."""
MAX_SECONDS = 600.0
MAX_ID = 200
ENV_PROFILE = "HOLTER_PROFILE"
"""Windows that are requested at the start: the text of `to_text`."""
ENV_LOOK = "HOLTER_LOOK"
"""One of `LOOKS`: whether the recorder profiles a few steps without a request; unset or empty means `auto`."""
LOOKS = ("never", "auto", "always")
LOOK = "look"
"""Id of the order of such windows."""

# The page `P.orders` of a process that trains: native signed 32-bit words, then text.
PAGE_SIZE = 4096
WAKE = 0
"""Word 0: at the begin of this step the process reads the page; the agent writes 0, the process the rest."""
TAKEN = 1
"""Word 1: number of the order that the process has taken."""
NUMBER = 2
"""Word 2: number of the order that lies here; written after its text."""
LENGTH = 3
"""Word 3: length of the text that begins at byte `TEXT`, in bytes."""
TEXT = 16
NEVER = 2**31 - 1


def _valid(name: object, valid: Sequence[str]) -> str:
    """Return the end of an error's text: the name that is nearest to a wrong one, and all valid names."""
    near = difflib.get_close_matches(str(name), valid, n=1)
    return f"{f' (did you mean {near[0]!r}?)' if near else ''}; valid: {', '.join(valid)}"


def orders_name(process: str) -> str:
    """Name of the page of a process (`pid-start`)."""
    return f"{process}.orders"


@dataclass(frozen=True, slots=True)
class Request:
    """One requested window: by steps or by time, and of which rank.

    Steps: from `start_step` on, `steps` of them; without a start from the next step on, without a count one.
    Time: from `start_ns` on for `duration_ns`; without a start from now on, without a length one step.
    """

    profiler: str
    start_step: int | None = None
    steps: int | None = None
    start_ns: int | None = None
    """Nanoseconds since the epoch."""
    duration_ns: int | None = None
    rank: int | None = None
    """The only rank that profiles; None: every one."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Options of the profiler."""

    def __post_init__(self) -> None:
        """Check it; raises `ValueError` naming what is wrong and what is valid."""
        if self.profiler not in PROFILERS:
            raise ValueError(f"no profiler {self.profiler!r}{_valid(self.profiler, PROFILERS)}")
        most = {"steps": MAX_STEPS, "duration_ns": int(MAX_SECONDS * 1e9)}
        for name in ("start_step", "steps", "start_ns", "duration_ns", "rank"):
            value, least = getattr(self, name), int(name in most)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} {value!r} of a window of {self.profiler} is no whole number")
            if not least <= value <= most.get(name, 2**63 - 1):
                upper = f" to {most[name]}" if name in most else " or more"
                raise ValueError(
                    f"{name} {value} of a window of {self.profiler} is out of range; valid: {least}{upper}"
                )
        if self.by_steps and self.by_time:
            raise ValueError(f"a window of {self.profiler} is given by steps and by time; give one of both")
        if not isinstance(self.parameters, dict):
            raise ValueError(f"parameters {self.parameters!r} of a window of {self.profiler} are no object")

    @property
    def by_steps(self) -> bool:
        """Whether steps say when."""
        return self.start_step is not None or self.steps is not None

    @property
    def by_time(self) -> bool:
        """Whether the clock says when."""
        return self.start_ns is not None or self.duration_ns is not None


@dataclass(frozen=True, slots=True)
class ProfilingOrder:
    """Windows of one request; they follow one another, because two profilers would measure each other."""

    requests: tuple[Request, ...]
    id: str = ""
    """Name by which the requester recognizes the order."""
    replace: bool = False
    """Whether it ends the running window and replaces the waiting ones."""
    refused: tuple[str, ...] = ()
    """Why requested windows are not among the requests."""

    def to_text(self) -> str:
        """Return it as JSON text."""
        requests = [{k: v for k, v in asdict(one).items() if v not in (None, {})} for one in self.requests]
        return json.dumps(
            {"id": self.id, "replace": self.replace, "requests": requests}, separators=(",", ":")
        )

    @classmethod
    def from_text(cls, text: str) -> ProfilingOrder:
        """Read what `to_text` returned; a request that is wrong costs itself. Raises `ValueError`."""
        document = json.loads(text)
        if not isinstance(document, dict) or not isinstance(document.get("requests", []), list):
            raise ValueError("an order for windows is an object with a list of requests")
        requests, refused = [], []
        for entry in document.get("requests", []):
            try:
                requests.append(_read_request(entry))
            except ValueError as error:
                refused.append(str(error))
        name = str(document.get("id", ""))[:MAX_ID]
        return cls(tuple(requests), name, bool(document.get("replace")), tuple(refused))


def _read_request(entry: Any) -> Request:
    """Read a window from an object with the fields of `Request`. Raises `ValueError`."""
    known = [one.name for one in fields(Request)]
    if not isinstance(entry, dict) or not entry.get("profiler"):
        raise ValueError(f"a window is an object with a profiler, not {entry!r}")
    for key in entry:
        if key not in known:
            raise ValueError(f"a window has no {key!r}{_valid(key, known)}")
    return Request(**entry)


PYTHON = ("cprofile", "pyinstrument")
TIMERS = ("total_time", "cpu_time", "off_cpu_time", "default")
_LAST_TIME = 2**33
"""Seconds; more are given in another unit."""
_KEYS = (
    "id", "by", "steps", "start_step", "seconds", "start_time", "rank", "replace",
    "operators", "shapes", "stacks", "python", "timer", "dataloader",
)  # fmt: skip


def order_of(document: Mapping[str, Any]) -> ProfilingOrder:
    """Read `profile` of `control.json`, as `holter profile` and the rules' actions write it.

    Keys: `id`, `by`; `steps` and `start_step`, or `seconds` and `start_time` (unix time); `rank`; `operators` with `shapes` and `stacks`;
    `python` (one of `PYTHON`) with `timer`; `dataloader`. Without a profiler it is operators.

    Raises:
        ValueError: The text names the key, the value and what is valid.
    """
    for key in document:
        if key not in _KEYS:
            raise ValueError(f"no {key!r} in an order to profile{_valid(key, _KEYS)}")
    names = ("python", "timer", "seconds", "start_time")
    python, timer, seconds, begin = (document.get(key) for key in names)
    if python is not None and python not in PYTHON:
        raise ValueError(f"no profiler of Python called {python!r}; valid: {', '.join(PYTHON)}")
    if timer is not None and timer not in TIMERS:
        raise ValueError(f"no timer {timer!r}; valid: {', '.join(TIMERS)}")
    if seconds is not None and not (_is_number(seconds) and 0 < seconds <= MAX_SECONDS):
        raise ValueError(f"{seconds!r} seconds are out of range; valid: more than 0, at most {MAX_SECONDS:g}")
    if begin is not None and not (_is_number(begin) and 0 <= begin <= _LAST_TIME):
        raise ValueError(f"start_time {begin!r} is no unix time; valid: seconds since 1970, as 1767225600")
    window = partial(
        Request,
        start_ns=None if begin is None else round(begin * 1e9),
        start_step=document.get("start_step"),
        steps=document.get("steps"),
        duration_ns=None if seconds is None else max(1, round(seconds * 1e9)),
        rank=document.get("rank"),
    )
    dataloader = bool(document.get("dataloader"))
    found = []
    if document.get("operators") or not (python or dataloader or document.get("replace")):
        parameters = {key: True for key in ("shapes", "stacks") if document.get(key)}
        found.append(window("operators", parameters=parameters))
    if dataloader:
        found.append(window("dataloader"))
    if python:
        parameters = {"profiler": python, **({"timer": timer} if timer else {})}
        found.append(window("python", parameters=parameters))
    return ProfilingOrder(tuple(found), str(document.get("id", ""))[:MAX_ID], bool(document.get("replace")))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


KEPT_S = 60.0
"""How long an order stays for agents, and for processes that train, that have not seen it yet."""
_MAX_KEPT = 32


def with_order(control: Mapping[str, object], document: object, now: float) -> dict[str, object]:
    """Return what `control.json` holds once windows are asked for at `now` (unix seconds).

    Under `profile` stands the newest order, under `profiles` that of the last minute with their times: agents
    look twice a second, in a job's first seconds less often, and must not miss what came in between.
    """
    kept = [one for one in _recent(control) if now - one[0] <= KEPT_S]
    return {**control, "profile": document, "profiles": [*kept, [now, document]][-_MAX_KEPT:]}


def orders(control: Mapping[str, object]) -> list[Any]:
    """Return the orders of `control.json` that agents may not have seen, oldest first."""
    found, newest = [order for _, order in _recent(control)], control.get("profile")
    return found if newest is None or newest in found else [*found, newest]


def _recent(control: Mapping[str, object]) -> list[Any]:
    known = control.get("profiles")
    listed = known if isinstance(known, list) else []
    return [one for one in listed if isinstance(one, list) and len(one) == 2 and _is_number(one[0])]


def order_of_words(text: str) -> ProfilingOrder:
    """Read `1000:1500`, steps from the first to before the last, or `1000:1500:shapes,cprofile,rank=0`.

    After the steps: `operators` (alone by default), `shapes`, `stacks`, `dataloader`, `cprofile` or
    `pyinstrument`, `timer=` one of `TIMERS`, `rank=N`.

    Raises:
        ValueError: The text says what is valid.
    """
    first, _, rest = text.strip().partition(":")
    last, _, more = rest.partition(":")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise ValueError(f"{text!r} are no steps; write FIRST:LAST, as 1000:1500, the last is not profiled")
    document: dict[str, object] = {"start_step": int(first), "steps": int(last) - int(first)}
    switches = ("operators", "shapes", "stacks", "dataloader")
    for word in filter(None, (word.strip() for word in more.split(","))):
        if word in switches:
            document[word] = True
        elif word in PYTHON:
            document["python"] = word
        elif word.startswith("rank=") and word[5:].isdecimal():
            document["rank"] = int(word[5:])
        elif word.startswith("timer="):
            document["timer"] = word[6:]
        else:
            valid = (*switches, *PYTHON, "timer=NAME", "rank=N")
            raise ValueError(f"{text!r}: no {word!r}{_valid(word, valid)}")
    if "timer" in document and document.get("python") != "cprofile":
        raise ValueError(f"{text!r}: a timer is one of cprofile, which is not asked for")
    return order_of(document)


def to_environment(given: Iterable[str]) -> str:
    """Return windows, each as `order_of_words` takes them, as children find them; empty without one.

    Raises:
        ValueError: One cannot be read.
    """
    requests = tuple(request for text in given for request in order_of_words(text).requests)
    return ProfilingOrder(requests).to_text() if requests else ""
