"""Names the operations that computed a loss, last one first, without a look at any tensor."""

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
