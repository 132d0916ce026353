"""Which of three levels a number reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.rules import Severity


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


def worst(*found: Severity | None) -> Severity | None:
    """Return the highest of several levels."""
    return max((f for f in found if f), key=("info", "warning", "critical").index, default=None)
