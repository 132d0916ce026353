"""Numbers and moments that several parts of a job's description share, with their limits."""

from typing import Annotated, Any, TypeAlias, TypeVar, cast

from msgspec import Meta

Percent: TypeAlias = Annotated[float, Meta(ge=0, le=100)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Rank: TypeAlias = Annotated[int, Meta(ge=0)]
Moment: TypeAlias = Annotated[int, Meta(description="Nanoseconds since the epoch, on the job's clock.")]
_Row = TypeVar("_Row")
TableRow: TypeAlias = dict[str, Any]
"""A row of an analysis table. The function that returns the table documents its columns."""


def row_of(found: object, kind: type[_Row]) -> _Row:
    """Return an analysis result as a dict of a `TypedDict`; a key in us is an attribute in ns."""

    def value(key: str) -> object:
        return getattr(found, f"{key[:-3]}_ns") / 1e3 if key.endswith("_us") else getattr(found, key)

    return cast("_Row", {key: value(key) for key in kind.__annotations__})
