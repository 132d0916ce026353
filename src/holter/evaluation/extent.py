"""When a job began and ended, for those who judge it: as its rows say, where its manifest is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from holter.store.trial import Trial

_DAY_NS = 24 * 3_600_000_000_000
FAR_NS = _DAY_NS
"""An agent writes rows from the first second to the last: a manifest that is so far off them is wrong."""
LONGEST_NS = 1000 * _DAY_NS
"""No training lasts longer: a damaged time is likelier, and all the looks would take hours."""


def began(trial: Trial) -> int:
    """Return when a job began, ns since the epoch: as its manifest says, unless its rows are far off."""
    manifest = trial.manifest
    said = manifest.get("start") or manifest.get("created")
    oldest, newest = _rows(trial)
    if oldest is None:
        end = manifest.get("end")
        far = said is None or (end is not None and end - said > FAR_NS)
        return (end or 0) if far else said or 0
    if newest is not None and newest - oldest > LONGEST_NS:
        days = (newest - oldest) // _DAY_NS
        raise ValueError(
            f"the rows of job {trial.folder.name} lie {days:,} days apart, so its times are damaged; "
            f"rules judge jobs of at most {LONGEST_NS // _DAY_NS:,} days"
        )
    return oldest if said is None or abs(oldest - said) > FAR_NS else said


def until(trial: Trial, newest: int) -> int:
    """Return the last moment to judge: the end that the manifest says, unless rows end long before it.

    Args:
        trial: The job.
        newest: The end of the newest row that was read, or when the job began.
    """
    said = trial.manifest.get("end")
    if said is None:
        return newest
    latest = max(newest, _rows(trial)[1] or 0)
    return latest if said - latest > FAR_NS else int(said)


def _rows(trial: Trial) -> tuple[int | None, int | None]:
    """Return the oldest and the newest time of a job's rows, as its files say."""
    oldest = [time for name in TABLES if (time := trial.oldest(name)) is not None]
    newest = [time for name in TABLES if (time := trial.newest(name)) is not None]
    return min(oldest, default=None), max(newest, default=None)
