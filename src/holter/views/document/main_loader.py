"""Finds the data loader from which the training takes its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holter.schema.phases import ITERATOR_START, NEXT_BATCH

if TYPE_CHECKING:
    from holter.store.trial import Trial

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
    def of(cls, trial: Trial, ranks: int, steps: int) -> MainLoader | None:
        """Find the main loader among a job's spans; None if the spans name no loader.

        Args:
            trial: The job.
            ranks: Number of ranks that took steps.
            steps: Number of rows of table `steps`, those of all ranks.
        """
        table = trial.sql(
            f"SELECT value, count(*) FILTER (name = '{NEXT_BATCH}') AS batches, "  # noqa: S608
            f"list(time ORDER BY time) FILTER (name = '{ITERATOR_START}') AS begins FROM spans "
            f"WHERE {_LOADS} AND rank = (SELECT min(rank) FROM spans WHERE {_LOADS}) AND NOT isnan(value) "
            "GROUP BY value ORDER BY batches DESC LIMIT 1"
        )
        if not table.rows:
            return None
        begins, batches = table["begins"][0], int(table["batches"][0])
        # Loaders are a few batches ahead.
        a_step = round(batches * (ranks or 1) / max(steps, 1))
        started = [] if begins is None else [int(time) for time in begins]
        return cls(int(table["value"][0]), batches, started, a_step)
