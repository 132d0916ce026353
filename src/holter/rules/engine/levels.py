"""From a value and three limits to a severity; the worst of several; and less where little time is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.severity import SEVERITIES

if TYPE_CHECKING:
    from holter.schema.severity import Severity


def grade(
    value: float,
    *,
    info: float | None = None,
    warning: float | None = None,
    critical: float | None = None,
) -> Severity | None:
    """Return the highest level whose limit is reached; a level without a limit does not exist."""
    if critical is not None and value >= critical:
        return "critical"
    if warning is not None and value >= warning:
        return "warning"
    return "info" if info is not None and value >= info else None


def severity_of(
    value: float, info: float | None, warning: float | None, critical: float | None
) -> Severity | None:
    """Return the level of a share or a cost, of which nothing at all is no level.

    The lowest level is the limit of all: whoever raises it means the others too.
    """
    if value <= 0 or value < (info or 0.0):
        return None
    return grade(value, info=info, warning=warning, critical=critical)


def worst(*found: Severity | None) -> Severity | None:
    """Return the highest of several levels."""
    return max((f for f in found if f), key=SEVERITIES.index, default=None)


def worth(severity: Severity | None, lost_s: float, worth_s: float) -> Severity | None:
    """Return a note at most when less time than `worth_s` is lost in all, and nothing below a fifth of it."""
    if severity is None or lost_s < worth_s / 5:
        return None
    return "info" if lost_s < worth_s else severity
