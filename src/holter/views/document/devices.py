"""Lists the sampled devices of a machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.views.reading import Reading

_LAST_NS = 300_000_000_000


def devices(reading: Reading, metric: str) -> list[str]:
    """Return the names of the devices that have a metric, `cpu2` before `cpu10`; of the reading's node."""
    since = reading.end - _LAST_NS  # the job's last minutes have them all
    for start in (since, None):
        inside = "" if start is None else f" AND time >= {start}"
        node = "" if reading.node is None else " AND node = '{}'".format(reading.node.replace("'", "''"))
        table = reading.trial.sql(
            f"SELECT DISTINCT device FROM samples WHERE metric = '{metric}'{inside}{node}",  # noqa: S608
            start_ns=start,
        )
        if table.rows:
            break
    return sorted(table["device"].astype(str).tolist(), key=by_number)


def by_number(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key for names with numbers, so that `cpu2` comes before `cpu10`."""
    return [
        (1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", name) if part
    ]
