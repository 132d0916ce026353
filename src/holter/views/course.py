"""The course of the step time in a few numbers, which lists of jobs draw without reading the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.tables import steps_of

if TYPE_CHECKING:
    from holter.store.trial import Trial

POINTS = 40
_DIGITS = 3


def course(trial: Trial, since: int = 0) -> list[float | None] | None:
    """Return the median step time in equal stretches of time from `since` on, ms; None with fewer than two.

    A stretch without a step has None.
    """
    steps, more = "steps", {}
    if not trial.rows("steps"):  # no rule stored them
        steps, more = "built", {"built": steps_of(trial, columns=("time", "duration", "rank"))}
        if not more["built"].rows:
            return None
    found = trial.sql(
        f"WITH own AS (SELECT time, duration FROM {steps} WHERE time >= {since}), "  # noqa: S608
        "ends AS (SELECT min(time) AS low, greatest(max(time) - min(time), 1) AS span FROM own) "
        f"SELECT least((time - low) * {POINTS}::HUGEINT // span, {POINTS - 1})::INTEGER AS at, "
        "approx_quantile(duration, 0.5) / 1e6 AS ms FROM own, ends GROUP BY ALL",
        start_ns=since or None,
        more=more,
    )
    if found.rows < 2:
        return None
    known = dict(zip(found["at"].tolist(), found["ms"].tolist(), strict=True))
    return [float(f"{known[at]:.{_DIGITS}g}") if at in known else None for at in range(POINTS)]
