"""Numbers and moments that several parts of a job's description share, with their limits."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

Percent: TypeAlias = Annotated[float, Meta(ge=0, le=100)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Rank: TypeAlias = Annotated[int, Meta(ge=0)]
Moment: TypeAlias = Annotated[int, Meta(description="Nanoseconds since the epoch, on the job's clock.")]
TableRow: TypeAlias = dict[str, Any]
"""A row of an analysis table. The function that returns the table documents its columns."""
