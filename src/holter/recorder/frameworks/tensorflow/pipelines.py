"""Reads the performance model of tf.data: what each stage of a pipeline took, and its settings."""

from __future__ import annotations

import os
import sys
import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.recorder.session import Session

FIRST = 16
"""Elements of a pipeline after which its stages are journaled first; then at each doubling."""
MOST_FACTS = 500
_LIBRARIES = (os.path.join("tensorflow", "python"), os.path.join("keras", "src"))
"""Parts of the paths of functions that are not the script's."""
_GENERATOR = "Generator"
_MAPS = ("Map", "Filter", "Interleave", "Scan", "TakeWhile", "Reduce", "GroupBy")
"""Parts of the names of stages that call a function of the script."""


class Pipelines:
    """Numbers the datasets that the script iterates over, and journals what tf.data says of them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Dataset → its number among the datasets of this process."""
        self._iterators: weakref.WeakKeyDictionary[Any, _Source] = weakref.WeakKeyDictionary()
        self._facts = 0
        self.generator = ""
        """The function that makes the elements of a generator, where the adapter of Keras knows it."""
        self._get: Any = None

    def made(self, iterator: Any, dataset: Any) -> float:
        """Remember the dataset of a new iterator; return its number."""
        number = self._numbers.setdefault(dataset, len(self._numbers))
        self._iterators[iterator] = _Source(number, weakref.ref(dataset))
        return number

    def taken(self, iterator: Any) -> float:
        """Count an element that a loop of the script took; return its dataset's number, NaN if unknown."""
        source = self._iterators.get(iterator)
        if source is None:
            return float("nan")
        source.taken += 1
        if source.taken >= source.due:
            self.read(iterator)
        return source.number

    def read(self, iterator: Any) -> Any:
        """Return the model proto of an iterator, None without one, and journal its stages now and then."""
        if self._get is None:
            self._get = sys.modules["tensorflow"].data.experimental.get_model_proto
        try:
            model = self._get(iterator)
        except (ValueError, sys.modules["tensorflow"].errors.OpError):
            return None  # without autotuning there is no model
        source = self._iterators.get(iterator)
        if source is not None:
            self._tell(source, model)
        return model

    def _tell(self, source: _Source, model: Any) -> None:
        output = model.nodes.get(model.output)
        elements = 0 if output is None else _elements(model, output)
        if elements < source.due or self._facts >= MOST_FACTS:
            return
        source.due = 2 * max(elements, source.taken)
        self._facts += 1
        fact = {
            "dataset": source.number,
            "step": self._session.step,
            "elements": elements,
            "stages": stages(model, source.dataset(), self.generator),
            "time": perf_counter_ns(),
        }
        self._session.journal("pipeline", fact)


class _Source:
    """The dataset of an iterator."""

    def __init__(self, number: int, dataset: weakref.ref[Any]) -> None:
        self.number, self.dataset = number, dataset
        self.due = FIRST
        """Elements after which its stages are journaled next."""
        self.taken = 0


def _elements(model: Any, output: Any) -> int:
    """Return how many elements a pipeline has given; the outermost nodes may not count theirs."""
    node = output
    while not node.num_elements and len(node.inputs) == 1 and node.inputs[0] in model.nodes:
        node = model.nodes[node.inputs[0]]
    return int(node.num_elements)


def stages(model: Any, dataset: Any, generator: str = "") -> list[dict[str, Any]]:
    """Return the stages of a pipeline from its source to its output.

    Each has its `name`, the number of `elements` it gave, `ms` of work for all of them, `parallelism` and
    `buffer` with whether tf.data tunes them (`tuned`), the elements in its buffer, and the `function` of the
    script that it calls.
    """
    found = [_stage(model.nodes[one]) for one in _order(model)]
    calling = [one for one in found if any(part in one["name"] for part in _MAPS)]
    called = list(functions(dataset))
    if len(calling) == len(called):  # else tf.data has fused or added some
        for stage, function in zip(reversed(calling), called, strict=True):
            stage["function"] = function
    for stage in found:
        if stage["name"] == _GENERATOR and generator:
            stage["function"] = generator
    return found


def _order(model: Any) -> list[int]:
    """Return the ids of the nodes, each after its inputs."""
    order: list[int] = []

    def visit(node: int) -> None:
        if node in model.nodes and node not in order:
            for each in model.nodes[node].inputs:
                visit(each)
            order.append(node)

    visit(model.output)
    return order


def _stage(node: Any) -> dict[str, Any]:
    stage: dict[str, Any] = {
        "name": node.name,
        "elements": int(node.num_elements),
        "ms": node.processing_time / 1e6,
        "buffered": int(node.buffered_elements),
    }
    for parameter in node.parameters:
        key = {"parallelism": "parallelism", "buffer_size": "buffer"}.get(parameter.name)
        if key is not None:
            stage[key], stage["tuned"] = int(parameter.value), bool(parameter.tunable)
    return stage


def place(code: Any) -> str:
    """Return code as `name (file:line)`."""
    name = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")  # not in Python 3.10
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def functions(dataset: Any) -> Iterator[str]:
    """Yield the functions of the script that a dataset calls, from its output to its source."""
    while dataset is not None:
        function = getattr(getattr(dataset, "_map_func", None), "_func", None) or getattr(
            getattr(dataset, "_predicate", None), "_func", None
        )
        code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
        if code is not None and not any(part in code.co_filename for part in _LIBRARIES):
            yield place(code)
        dataset = getattr(dataset, "_input_dataset", None)
