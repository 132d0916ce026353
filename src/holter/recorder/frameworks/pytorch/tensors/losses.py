"""Reads labels and predictions of a loss from the graph that keeps them for the backward pass.

No function is wrapped: nothing is looked at before a backward pass begins in a step that is saved.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOSS = re.compile(
    r"(NllLoss|NllLoss2D|BinaryCrossEntropy|BinaryCrossEntropyWithLogits|MseLoss|SmoothL1Loss|HuberLoss)"
    r"Backward\d*"
)
"""What autograd calls the functions that keep what they were given as `self` and `target`."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NODES = 32
"""Nodes that are looked at, from the loss on: losses are weighted, added and averaged, but not much more."""


def given(loss: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield name, role and tensor of what the functions were given that a loss was computed with.

    Of a classification the first is the logarithm of probabilities: the same as scores, up to a constant.
    """
    waiting = deque([loss.grad_fn])
    seen: set[Any] = set()
    while waiting and len(seen) < _NODES:
        node = waiting.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        match = _LOSS.fullmatch(node.name())
        if match is None:
            waiting += [before for before, _ in node.next_functions]
            continue
        name = _WORDS.sub("_", match[1]).lower()
        yield f"{name}_input_0", "logits", node._saved_self
        yield f"{name}_input_1", "labels", node._saved_target
