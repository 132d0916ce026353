"""From a value and three limits to a severity; and to less where little time is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.rules import Severity


def severity_of(
    value: float, info: float | None, warning: float | None, critical: float | None
) -> Severity | None:
    """Return the highest level that a value reaches; a limit that is not given is never reached.

    The lowest level is the limit of all: whoever raises it means the others too.
    """
    levels: tuple[tuple[Severity, float | None], ...] = (
        ("critical", critical),
        ("warning", warning),
        ("info", info),
    )
    for severity, limit in levels:
        if limit is not None and value > 0 and value >= max(limit, info or 0.0):
            return severity
    return None


def worth(severity: Severity | None, lost_s: float, worth_s: float) -> Severity | None:
    """Return a note at most when less time than `worth_s` is lost in all, and nothing below a fifth of it."""
    if severity is None or lost_s < worth_s / 5:
        return None
    return "info" if lost_s < worth_s else severity
