"""Severities: from a value and three limits, the worst of several, and lower where little time is lost."""

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
    """Return the highest severity whose limit is reached; a severity without a limit is never returned."""
    if critical is not None and value >= critical:
        return "critical"
    if warning is not None and value >= warning:
        return "warning"
    return "info" if info is not None and value >= info else None


def severity_of(
    value: float, info: float | None, warning: float | None, critical: float | None
) -> Severity | None:
    """Return the severity of a share or a cost; a value of 0 has no severity.

    A value below the limit of `info` has no severity either, even where other limits are lower.
    """
    if value <= 0 or value < (info or 0.0):
        return None
    return grade(value, info=info, warning=warning, critical=critical)


def worst(*found: Severity | None) -> Severity | None:
    """Return the highest of several severities."""
    return max((f for f in found if f), key=SEVERITIES.index, default=None)


def worth(severity: Severity | None, lost_s: float, worth_s: float) -> Severity | None:
    """Return at most `info` when less than `worth_s` is lost in all, and None below a fifth of it."""
    if severity is None or lost_s < worth_s / 5:
        return None
    return "info" if lost_s < worth_s else severity
