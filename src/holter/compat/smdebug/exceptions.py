"""Errors under the names that smdebug gives them."""

from __future__ import annotations

from holter.tensors.errors import (
    IndexReaderException,
    InsufficientInformationForRuleInvocation,
    InvalidCollectionConfiguration,
    InvalidWorker,
    MissingCollectionFiles,
    NoMoreData,
    RuleEvaluationConditionMet,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorError,
    TensorUnavailable,
    TensorUnavailableForStep,
)

SMDebugError = TensorError
"""What all of them are."""


class SMDebugCustomerError(SMDebugError):
    """The user's configuration is at fault."""


class SMDebugTypeError(SMDebugError, TypeError):
    """An argument is of the wrong type."""


class SMDebugValueError(SMDebugError, ValueError):
    """An argument has a value that is not allowed."""


class SMDebugRuntimeError(SMDebugError, RuntimeError):
    """Something cannot be done in this state."""


class SMDebugNotImplementedError(SMDebugError, NotImplementedError):
    """This is not there."""


class TrialNotFound(SMDebugError, FileNotFoundError):  # noqa: N818 - like its siblings
    """There is no job at this path, where smdebug waits for one without end."""


class NoMoreProfilerData(SMDebugError):  # noqa: N818 - smdebug's name
    """The job has ended, and this time lies beyond its end."""

    def __init__(self, timestamp: float) -> None:
        self.timestamp = timestamp
        super().__init__(f"the job has ended before {timestamp}")


__all__ = [
    "IndexReaderException",
    "InsufficientInformationForRuleInvocation",
    "InvalidCollectionConfiguration",
    "InvalidWorker",
    "MissingCollectionFiles",
    "NoMoreData",
    "NoMoreProfilerData",
    "RuleEvaluationConditionMet",
    "SMDebugCustomerError",
    "SMDebugError",
    "SMDebugNotImplementedError",
    "SMDebugRuntimeError",
    "SMDebugTypeError",
    "SMDebugValueError",
    "ShapeUnavailableForStep",
    "StepNotYetAvailable",
    "StepUnavailable",
    "TensorUnavailable",
    "TensorUnavailableForStep",
    "TrialNotFound",
]
