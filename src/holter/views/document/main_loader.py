"""The data loader that a training takes its batches from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.schema.phases import ITERATOR_START, NEXT_BATCH

if TYPE_CHECKING:
    from holter.views.figures import Reading

_LOADS = f"phase = 'data_loading' AND worker = -1 AND name IN ('{ITERATOR_START}', '{NEXT_BATCH}')"


@dataclass(frozen=True, slots=True)
class MainLoader:
    """The loader that gave most batches to the first rank."""

    number: int
    batches: int
    begins: list[int]
    """When it was started, once an epoch; ns since the epoch."""
    a_step: int
    """Batches that a step takes."""

    @classmethod
    def of(cls, reading: Reading) -> MainLoader | None:
        """Look for it among a job's spans; None where no loader was seen."""
        table = reading.trial.sql(
            f"SELECT value, count(*) FILTER (name = '{NEXT_BATCH}') AS batches, "  # noqa: S608
            f"list(time ORDER BY time) FILTER (name = '{ITERATOR_START}') AS begins FROM spans "
            f"WHERE {_LOADS} AND rank = (SELECT min(rank) FROM spans WHERE {_LOADS}) AND NOT isnan(value) "
            "GROUP BY value ORDER BY batches DESC LIMIT 1"
        )
        if not table.rows:
            return None
        begins, batches = table["begins"][0], int(table["batches"][0])
        ranks = len(reading.description["ranks"]) or 1
        # Loaders are a few batches ahead.
        a_step = round(batches * ranks / max(reading.steps.rows, 1))
        started = [] if begins is None else [int(time) for time in begins]
        return cls(int(table["value"][0]), batches, started, a_step)
