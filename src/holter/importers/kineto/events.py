"""One event of a trace in Chrome's format, before its arguments are decoded."""

from __future__ import annotations

import msgspec
from msgspec import Raw


class TraceEvent(msgspec.Struct, gc=False):
    """One event; `ts` and `dur` in microseconds, as some write them as text; `args` not decoded yet."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    args: Raw = Raw(b"{}")
    id: int | str | None = None
