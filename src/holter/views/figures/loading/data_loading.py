"""Shares of the stages of data loading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.figure import Axis, Figure, Series

if TYPE_CHECKING:
    from holter.views.reading import Reading

MISSING = (
    "The stages of data loading are unknown: the job has no torch DataLoader, or batches cost almost no time."
)


def draw(reading: Reading) -> Figure | None:
    """Draw each stage's share of the training loop's time."""
    loading = reading.description["dataloading"]
    stages = loading["stages"] if loading else None
    if not stages:
        return None
    named = sorted(stages, key=lambda stage: -(stages[stage] or 0))
    return Figure(
        title="Inside data loading",
        kind="bars",
        x=named,
        x_axis=Axis("stage"),
        y_axis=Axis("share of the training loop", "%"),
        series=[Series("share", [stages[stage] for stage in named])],
    )
