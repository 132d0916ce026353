"""Reads what tf.data tells of its pipelines: the work of each stage, its settings, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.analysis.events import details

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table

_PASSIVE = ("Root", "Prefetch", "Model", "Options")
"""Stages that hand over what others made."""
_READS = ("TFRecord", "FixedLengthRecord", "TextLine", "Interleave", "FlatMap")
_CALLS = ("Map",)
PYTHON = "Generator"
"""A stage that runs Python code, which only one thread at a time does."""


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """One stage of a pipeline."""

    name: str
    function: str | None
    """The function of the script that it calls, with file and line."""
    batch_ms: float
    """Work for one element of the pipeline's output, usually a batch."""
    elements: float
    """Elements that it takes for that."""
    parallelism: int | None
    """Calls that run at once; None where the stage has one thread."""
    tuned: bool
    """Whether tf.data chooses how many."""
    buffer: int | None = None
    """Elements that its buffer may hold."""

    @property
    def label(self) -> str:
        """`decode (train.py:9) in MapAndBatch`, or the name of the stage."""
        return f"{self.function} in {self.name}" if self.function else self.name

    @property
    def at_once_ms(self) -> float:
        """Time for a batch with its parallel calls."""
        return self.batch_ms / max(self.parallelism or 1, 1)

    @property
    def in_python(self) -> bool:
        """Whether it runs a Python generator."""
        return self.name == PYTHON

    @property
    def reads(self) -> bool:
        """Whether it reads files, several of which may be read at once."""
        return any(part in self.name for part in _READS)

    @property
    def calls(self) -> bool:
        """Whether it calls a function on each element, which could run several times at once."""
        return any(part in self.name for part in _CALLS) and not self.reads

    def to_json(self) -> dict[str, object]:
        """Return the stage as `describe --json` prints it."""
        names = ("name", "function", "batch_ms", "elements", "parallelism", "tuned", "buffer")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class DataPipeline:
    """A pipeline of tf.data, from its source to its output."""

    stages: list[PipelineStage]

    @property
    def slowest(self) -> PipelineStage | None:
        """The stage that limits the pipeline."""
        return max(self.active, key=lambda one: one.at_once_ms, default=None)

    @property
    def active(self) -> list[PipelineStage]:
        """The stages that work, from the source to the output."""
        return [one for one in self.stages if one.name not in _PASSIVE and one.batch_ms > 0]

    @property
    def ahead(self) -> bool:
        """Whether batches are made while the training computes: the output has a buffer."""
        last = next(
            (one for one in reversed(self.stages) if one.name not in ("Root", "Model", "Options")), None
        )
        return last is not None and (last.name == "Prefetch" or last.parallelism is not None)

    @property
    def work_ms(self) -> float:
        """Work of all stages for a batch."""
        return sum(one.batch_ms for one in self.stages if one.name not in _PASSIVE)


def pipeline(events: Table | None) -> DataPipeline | None:
    """Return the pipeline that has done the most work; None without tf.data."""
    told = [detail for _, detail in details(events, "pipeline") if detail.get("stages")]
    most = max(told, key=lambda one: sum(stage["ms"] for stage in one["stages"]), default=None)
    if most is None or not most.get("elements"):
        return None
    # The first elements take longer, so the largest number of them counts, and of equal ones the newest.
    same = [one for one in told if one["dataset"] == most["dataset"] and one["process"] == most["process"]]
    return _read(max(same, key=lambda one: (one["elements"], one["time"])))


def _read(fact: Mapping[str, Any]) -> DataPipeline:
    stages, count, before = [], fact["elements"], 0.0
    for one in fact["stages"]:
        given = one["elements"] / count
        joins = "Batch" in one["name"] and before > given
        stages.append(
            PipelineStage(
                name=one["name"],
                function=one.get("function"),
                batch_ms=one["ms"] / count,
                elements=before if joins else given,
                parallelism=one.get("parallelism"),
                tuned=bool(one.get("tuned")),
                buffer=one.get("buffer"),
            )
        )
        before = given
    return DataPipeline(stages)
