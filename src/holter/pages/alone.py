"""Whether pages are drawn for a file without a server behind it: no forms, links lead to its sheets."""

from __future__ import annotations

from contextvars import ContextVar

ALONE: ContextVar[bool] = ContextVar("alone", default=False)
