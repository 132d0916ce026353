"""Syntax trees of rule expressions, and their evaluation with the numbers of a step or a time."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.rules.own.step import Step

Value = float | bool | dict[str, Any] | None
"""A number or a boolean, or one for each tensor or device; None where it is not known."""

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {"abs": abs, "nonfinite": lambda x: not math.isfinite(x)}


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a syntax tree."""

    kind: str
    """number, scalar, tensor, over, or the operator that joins its parts."""
    parts: tuple[Node, ...] = ()
    name: str = ""
    value: float = 0.0

    def text(self) -> str:
        """Return a leaf as text, for the evidence."""
        if self.kind == "tensor":
            return f'{self.name.partition(" ")[0]}("{self.name.partition(" ")[2]}")'
        return f"{self.name}, {self.value:g}s)" if self.kind == "over" else self.name

    def leaves(self) -> list[Node]:
        """Return the nodes that stand for data."""
        if self.kind in ("scalar", "tensor", "over"):
            return [self]
        return [leaf for part in self.parts for leaf in part.leaves()]


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition, and the time or the number of steps for which it must hold."""

    condition: Node
    steps: int = 1
    seconds: float = 0.0

    @property
    def timed(self) -> bool:
        """Whether it uses readings of the machine, and not numbers of steps."""
        return any(leaf.kind == "over" for leaf in self.condition.leaves())

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables it needs."""
        leaves = self.condition.leaves()
        if self.timed:
            return tuple(sorted({f"samples/{leaf.name.partition('(')[2]}" for leaf in leaves}))
        tables = {"tensors" if leaf.kind == "tensor" else "scalars" for leaf in leaves}
        tables |= {"steps"} & {"steps" for leaf in leaves if leaf.name == "step_seconds"}
        return tuple(sorted(tables))


def value_of(node: Node, look: Callable[[Node], Value]) -> Any:
    """Evaluate a node; `look` returns the values of leaves."""
    if node.kind == "number":
        return node.value
    if node.kind in ("scalar", "tensor", "over"):
        return look(node)
    values = [value_of(part, look) for part in node.parts]
    if node.kind in ("and", "or"):
        known = [value for value in values if value is not None]
        if len(known) < 2:
            return None
        both = operator.and_ if node.kind == "and" else operator.or_
        return _joined(lambda a, b: both(bool(a), bool(b)), *known)
    if any(value is None for value in values):
        return None
    if node.kind == "not":
        return _joined(operator.not_, *values)
    if node.kind == "negative":
        return _joined(operator.neg, *values)
    return _joined(COMPARE.get(node.kind) or ARITHMETIC.get(node.kind) or FUNCTIONS[node.kind], *values)


def leaf_of(step: Step) -> Callable[[Node], Value]:
    """Return the function that looks up a step's numbers and tensors."""

    def look(node: Node) -> Value:
        if node.kind == "scalar":
            return step.seconds if node.name == "step_seconds" else step.scalars.get(node.name)
        statistic, _, pattern = node.name.partition(" ")
        found = {name: one[statistic] for name, one in step.tensors.items() if re.fullmatch(pattern, name)}
        return found or None

    return look


def _joined(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a function to numbers, or to each tensor that all operands have."""
    many: list[Mapping[str, Any]] = [value for value in values if isinstance(value, dict)]
    if not many:
        return function(*values)
    keys = [key for key in many[0] if all(key in other for other in many)]
    return {key: function(*(v[key] if isinstance(v, dict) else v for v in values)) for key in keys} or None
