"""The type of `what_if` in a description: step times of several workers without single causes."""

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from holter.views.document.types.values import Amount


class WhatIfCause(TypedDict):
    """One cause of slowness, and the mean step time without it."""

    kind: Literal[
        "worker",
        "workers",
        "stage",
        "micro_batches",
        "communication",
        "rank",
        "ranks",
        "unequal_ranks",
        "data_loading",
    ]
    name: str
    step_ms: Amount
    speedup: Annotated[Amount, Meta(description="step_ms of the replay over step_ms without the cause.")]
    ratio: Annotated[Amount, Meta(description="Own work over that of the others; 0 where it does not apply.")]


class Replay(TypedDict):
    """A replay of the job's steps from their dependencies, with and without causes of slowness. Means."""

    workers: int
    recorded_ms: Amount
    step_ms: Annotated[Amount, Meta(description="The replay with the recorded durations.")]
    ideal_ms: Annotated[Amount, Meta(description="The replay in which equal work takes equally long.")]
    slowdown: Annotated[Amount, Meta(description="step_ms / ideal_ms.")]
    causes: Annotated[list[WhatIfCause], Meta(description="The most costly first.")]
    by_operation: Annotated[
        dict[str, float],
        Meta(description="Slowdown if only operations of this name keep their recorded durations."),
    ]
    by_stage: dict[str, float]
    by_replica: dict[str, float]
