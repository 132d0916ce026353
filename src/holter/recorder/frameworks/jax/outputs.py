"""Finds the scalars among the outputs of a training step, such as its loss, and their names."""

from __future__ import annotations

import ast
import inspect
import math
import operator
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.recorder.frameworks.jax.transforms import TracedFunction

_MOST = 16
"""Scalars of a step that are read."""
_DEEPEST = 6
Path = tuple["Callable[[Any], Any]", ...]


class ScalarOutputs:
    """The places of the scalars in the output of a program."""

    def __init__(self, paths: list[Path], names: list[str], smallest: int) -> None:
        self.paths, self.names = paths, names
        self.smallest = smallest
        """The place of the smallest array among the leaves of the output; -1 without one."""

    @classmethod
    def of(cls, jax: Any, program: TracedFunction, args: Any, kwargs: Any, result: Any) -> ScalarOutputs:
        """Find the numbers that a step reports: floating-point scalars that are no part of its state.

        An output that is built like an argument is state.
        """
        structure = jax.tree_util.tree_structure
        state = {structure(one) for one in (*args, *kwargs.values())}
        state |= {structure(one) for args_ in args if isinstance(args_, (tuple, list)) for one in args_}
        leaf = structure(0)
        state.discard(leaf)
        found = list(_scalars(result, (), (), lambda one: structure(one) in state, program.updates))[:_MOST]
        returned = _returned(program.function)
        names = [_name(keys, returned) for _, keys in found]
        if len(found) == 1 and (not names[0] or "loss" not in names[0].lower()):
            names = ["loss"]
        names = [name or f"output{at}" for at, name in enumerate(names)]
        sizes = [getattr(one, "nbytes", math.inf) for one in jax.tree_util.tree_leaves(result)]
        return cls([path for path, _ in found], names, sizes.index(min(sizes)) if sizes else -1)

    def values(self, result: Any) -> list[Any]:
        """Return the scalars of an output."""
        values = []
        for path in self.paths:
            value = result
            for step in path:
                value = step(value)
            values.append(value)
        return values


def _scalars(
    value: Any, path: Path, keys: tuple[Any, ...], is_state: Callable[[Any], bool], steps: int
) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """Yield the path of each scalar, as functions and as keys."""
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "addressable_shards"):
        several = len(shape) == 1 and shape[0] in (steps, len(value.sharding.device_set))
        if (shape == () or several) and (value.dtype.kind == "f" or str(value.dtype) == "bfloat16"):
            yield path, keys
        return
    if value is None or len(path) >= _DEEPEST or is_state(value):
        return
    if isinstance(value, dict):
        for key in value:
            yield from _scalars(value[key], (*path, operator.itemgetter(key)), (*keys, key), is_state, steps)
    elif isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", None)
        for at, one in enumerate(value):
            key = fields[at] if fields else at
            yield from _scalars(one, (*path, operator.itemgetter(at)), (*keys, key), is_state, steps)


def _returned(function: Any) -> ast.expr | None:
    """Return the expression that the source of a function returns; None if it has several, or no source."""
    try:
        function = inspect.unwrap(getattr(function, "func", function))
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    outer = tree.body[0]
    if not isinstance(outer, ast.FunctionDef):
        return None
    waiting: list[ast.AST] = list(outer.body)
    found = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            found.append(node.value)
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))
    return found[0] if len(found) == 1 else None


def _name(keys: tuple[Any, ...], returned: ast.expr | None) -> str:
    """Return the name of an output: its keys, or what the function calls it; empty for none."""
    named = [str(key) for key in keys if not isinstance(key, int)]
    if named:
        return "/".join(named)
    node = returned
    for key in keys:
        if not isinstance(node, (ast.Tuple, ast.List)) or key >= len(node.elts):
            return ""
        node = node.elts[key]
    return node.id if isinstance(node, ast.Name) else ""


def numbers(value: Any) -> list[float]:
    """Return what a read output holds: one number for each step of a call."""
    if value.ndim == 0:
        return [float(value)]
    return [float(one) for one in value]


def is_finite(values: list[float]) -> bool:
    """Whether all numbers are finite."""
    return all(math.isfinite(one) for one in values)
