"""Finds the operation that produced a nonfinite number in the graph of the backward pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES = 50_000
_RESULTS = ("_saved_result", "_saved_out")
"""Prefixes of attributes with saved results of an operation; other attributes are saved inputs."""
_MOVES = re.compile(
    "View|Unsafe|Reshape|TBackward|Transpose|Expand|Permute|Clone|ToCopy|Alias|Select|Slice|Unsqueeze|Squeeze|"
    "AsStrided|Split|Chunk|Unbind"
)
"""Prefixes of the names of operations that only move numbers."""
_DECIDED = {"Log", "Log2", "Log10", "Log1p", "Acos", "Asin", "Atanh", "Acosh", "Erfinv"}
"""Operations that save their only input, so that their result can be computed again."""
_DEEPEST = 12


def nodes(root: Any) -> Iterator[Any]:
    """Yield the operations of a graph, except those that accumulate gradients of parameters."""
    seen, waiting = {root}, [root]
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        yield node
        for parent in _parents(node):
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)


def number(node: Any) -> int:
    """Return torch's sequence number of an operation: later operations have higher numbers."""
    return int(node._sequence_nr())


def parameters_used(loss: Any, names: dict[int, str]) -> dict[str, int]:
    """Return, for each parameter, the number of the first operation that used it; `names` are by id."""
    used: dict[str, int] = {}
    if loss.grad_fn is None:
        return used
    for node in nodes(loss.grad_fn):
        for leaf, _ in node.next_functions:
            variable = getattr(leaf, "variable", None)
            name = None if variable is None else names.get(id(variable))
            if name is not None:
                used[name] = min(used.get(name, 1 << 62), number(node))
    return used


def culprit(torch: Any, loss: Any) -> Any:
    """Return the first operation with finite inputs and a nonfinite result; None if the graph has no trace.

    It is the first one with a nonfinite saved result. If a saved input is nonfinite instead, it is the
    operation that made this input, behind operations that only move numbers.
    """
    if loss.grad_fn is None:
        return None
    for node in sorted(nodes(loss.grad_fn), key=number):
        for name, tensor in _saved(torch, node):
            if _finite(torch, tensor):
                continue
            after = node.next_functions[1:2]
            constant = name == "_saved_other" and after and after[0][0] is None  # such as a class weight
            if name.startswith(_RESULTS) or constant:
                return node
            return _source(torch, node, name) or node
    return _source(torch, loss.grad_fn, "") or loss.grad_fn


def saved_inputs(torch: Any, node: Any) -> dict[str, Any]:
    """Return the saved inputs of an operation, by torch's names."""
    return {name[7:]: tensor for name, tensor in _saved(torch, node) if not name.startswith(_RESULTS)}


def _source(torch: Any, node: Any, name: str) -> Any:
    """Return the operation before `node` that most likely made the nonfinite number, or None."""
    certain: list[Any] = []
    possible: list[Any] = []
    level = [node] if not name else _parents(node)
    seen = set(level)
    for _ in range(_DEEPEST):
        above: list[Any] = []
        for one in level:
            makes = _makes(torch, one)
            if makes is False:
                continue
            if makes:
                certain.append(one)
                continue
            if not _MOVES.match(one.name()):
                possible.append(one)
            above += [parent for parent in _parents(one) if parent not in seen]
            seen.update(above)
        if not above:
            break
        level = above
    if certain:
        return min(certain, key=number)
    return max(possible, key=number, default=None)


def _makes(torch: Any, node: Any) -> bool | None:
    """Whether an operation has a nonfinite result; None if unknown.

    A saved result decides, or a saved input from which the result can be computed.
    """
    saved = dict(_saved(torch, node))
    results = [tensor for key, tensor in saved.items() if key.startswith(_RESULTS)]
    if results:
        return not all(_finite(torch, tensor) for tensor in results)
    kind = node.name().partition("Backward")[0]
    given = saved.get("_saved_self")
    if given is not None and kind in _DECIDED:
        return not _finite(torch, getattr(torch, kind.lower())(given))
    divisor = saved.get("_saved_other")
    if kind == "Div" and divisor is not None and bool((divisor == 0).any()):
        return True
    return None


def _parents(node: Any) -> list[Any]:
    return [
        parent for parent, _ in node.next_functions if parent is not None and not hasattr(parent, "variable")
    ]


def _saved(torch: Any, node: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(node):
        if not name.startswith("_saved_") or "mask" in name:  # masks contain minus infinity by design
            continue
        try:
            value = getattr(node, name)
        except RuntimeError:  # freed, or changed in place
            continue
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            yield name, value.detach()


def _finite(torch: Any, tensor: Any) -> bool:
    return bool(torch.isfinite(tensor).all())
