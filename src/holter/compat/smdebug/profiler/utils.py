"""Units of time, as smdebug's readers take them."""

from __future__ import annotations

from enum import Enum


class TimeUnits(Enum):
    """What a number of a time counts."""

    SECONDS = 1
    MILLISECONDS = 2
    MICROSECONDS = 3
    NANOSECONDS = 4

    def microseconds(self, value: float) -> int:
        """Return a time of this unit in microseconds."""
        return round(value * _MICROSECONDS[self]) if self is not TimeUnits.NANOSECONDS else int(value) // 1000


_MICROSECONDS = {TimeUnits.SECONDS: 1_000_000, TimeUnits.MILLISECONDS: 1000, TimeUnits.MICROSECONDS: 1}


def convert_utc_timestamp_to_microseconds(seconds: float) -> int:
    """Return seconds as microseconds."""
    return TimeUnits.SECONDS.microseconds(seconds)
