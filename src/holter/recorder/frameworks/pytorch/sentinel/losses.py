"""Names the last operations of a loss and counts its classes, without a look at any tensor."""

from __future__ import annotations

from typing import Any

_MOST = 8


def operations(node: Any) -> list[str]:
    """Return the last operations up to a node of autograd, along the first input of each: `NllLoss`, …."""
    found: list[str] = []
    while node is not None and len(found) < _MOST:
        found.append(node.name().removesuffix("0").removesuffix("Backward"))
        node = next((one for one, _ in node.next_functions if one is not None), None)
    return found


def classes(loss: Any) -> int | None:
    """Return the number of classes of a cross entropy whose targets are classes; None for other losses."""
    node, last = loss.grad_fn, ""
    for _ in range(_MOST):
        if node is None:
            return None
        name = node.name()
        if name.startswith("LogSoftmax") and last.startswith("NllLoss"):
            shape = [tuple(one.shape) for one in getattr(node, "_input_metadata", ())]
            return int(shape[0][min(1, len(shape[0]) - 1)]) if shape and shape[0] else None
        last = name
        node = next((one for one, _ in node.next_functions if one is not None), None)
    return None
