"""The types of a comparison of tensors, as `holter compare --tensors --json` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from holter.analysis.tensors.differences import Why
    from holter.analysis.tensors.first_difference import Outcome


class TensorDifference(TypedDict):
    """One tensor that differs."""

    step: int
    mode: str
    rank: int
    """-1 for a tensor that ranks share."""
    tensor: str
    module: str
    """Empty if it belongs to no module."""
    role: str
    role_after: str
    """The role in the other job; empty for numbers and fingerprints."""
    stage: str
    """state, data, forward, buffer, loss, gradient or update."""
    kind: str
    """input or output of the module, parameter, gradient, optimizer, or empty."""
    by: str
    """elements, statistics, number, or fingerprint."""
    difference: float | None
    """Root mean square of the difference, relative to the tensor; None if it is not known or not finite."""
    why: Why
    tolerance: float | None
    before: float | None
    """The number, or the root mean square of the tensor."""
    after: float | None
    types: list[str]
    """The types of its elements in both jobs; empty where they are not known."""


class StepDifference(TypedDict):
    """The largest difference of a step within its tolerance."""

    step: int
    difference: float
    tensor: str


class TensorsCompared(TypedDict):
    """What both jobs hold."""

    steps: int
    first_step: int | None
    last_step: int | None
    later_steps: int
    """Steps after the first difference, which were not compared."""
    tensors: int
    by: dict[str, int]
    """Number of tensors that were compared by elements, statistics, number, and fingerprint."""


class TensorChange(TypedDict):
    """The comparison of the tensors of a job with those of the baseline."""

    baseline: str
    job: str
    result: Outcome
    """`identical`, `round_off`, `different`, `unclear` (round-off may explain it), or `nothing` in common."""
    first: TensorDifference | None
    """The first difference beyond round-off; if `unclear`, the first that may be."""
    origin: TensorDifference | None
    """A tensor of the same step that differs before `first` by an unknown amount: its fingerprint differs."""
    bits: TensorDifference | None
    """The first difference of any size."""
    agree: list[str]
    """The stages of which everything before `first` in its step is equal in both jobs."""
    within: list[str]
    """The stages of which something before `first` in its step was compared, and is within its tolerance."""
    previous: list[str]
    """The stages that were compared at the step directly before that of `first`, and are within tolerance."""
    inputs: Literal["equal", "within", "differ", "unknown"]
    """What is known of the inputs of the module of `first`."""
    weights: Literal["equal", "within", "differ", "unknown"]
    last_equal: str | None
    """The tensor before `first` in the order of computation that is within its tolerance."""
    beyond: list[TensorDifference]
    """Further tensors of this step beyond their tolerance, in the order of computation; the first 20."""
    beyond_count: int
    levels: list[StepDifference]
    precision: TensorDifference | None
    """The first tensor whose elements are of another type."""
    perturbed: str | None
    """The job whose differences from the baseline are round-off."""
    compared: TensorsCompared
    unread: list[str]
    """The files of the jobs that cannot be read, whose tensors were not compared."""
    missing: list[str]
