"""Lists the sampled devices of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.store.parquet.queries import literal
from holter.views.wording import natural

if TYPE_CHECKING:
    from holter.views.reading import Reading

_LAST_NS = 300_000_000_000


def devices(reading: Reading, metric: str) -> list[str]:
    """Return the names of the devices that have a metric, `cpu2` before `cpu10`; of the reading's node."""
    since = reading.end - _LAST_NS  # the job's last minutes have them all
    for start in (since, None):
        inside = "" if start is None else f" AND time >= {start}"
        node = "" if reading.node is None else f" AND node = {literal(reading.node)}"
        table = reading.trial.sql(
            f"SELECT DISTINCT device FROM samples WHERE metric = '{metric}'{inside}{node}",  # noqa: S608
            start_ns=start,
        )
        if table.rows:
            break
    return sorted(table["device"].astype(str).tolist(), key=natural)
