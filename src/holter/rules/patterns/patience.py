"""The time that a rule waits before it judges: after warm-up, for a number of readings or for seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.rules import Window


def start_of(window: Window, skip_warmup: bool) -> int | None:
    """Return the time from which readings count; None, reported on the window, while warm-up lasts."""
    since = window.job.loop if skip_warmup else window.job.start - 1
    if since is None:
        window.insufficient("patience_not_reached", "warm-up has not ended")
    return since


def too_early(
    window: Window, name: str, count: float, least: float | None, seconds: float, least_s: float | None
) -> bool:
    """Report whether a device or node was observed for too short a time; a limit on the count comes first."""
    have, need = (seconds, least_s) if least is None else (count, least)
    if need is None or have > need:
        return False
    window.insufficient("patience_not_reached", f"{name} was observed for too short a time", have, need)
    return True
