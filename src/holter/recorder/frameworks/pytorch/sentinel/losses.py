"""Names the last operations of a loss and counts its classes, without a look at any tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 8
"""Operations that are named."""


def operations(node: Any) -> list[str]:
    """Return the last operations up to a node of autograd, along the first input of each: `NllLoss`, …."""
    return [one.name().removesuffix("0").removesuffix("Backward") for one in _backwards(node)]


def classes(loss: Any) -> int | None:
    """Return the number of classes of a cross entropy whose targets are classes; None for other losses."""
    last = ""
    for node in _backwards(loss.grad_fn):
        name = node.name()
        if name.startswith("LogSoftmax") and last.startswith("NllLoss"):
            shape = [tuple(one.shape) for one in getattr(node, "_input_metadata", ())]
            return int(shape[0][min(1, len(shape[0]) - 1)]) if shape and shape[0] else None
        last = name
    return None


def _backwards(node: Any) -> Iterator[Any]:
    for _ in range(_MOST):
        if node is None:
            return
        yield node
        node = next((one for one, _ in node.next_functions if one is not None), None)
