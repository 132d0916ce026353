"""Looks at the labels that a loss keeps for its backward pass: range, classes, and how often each occurs."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.sentinel import values
from holter.recorder.frameworks.pytorch.sentinel.losses import operations
from holter.recorder.frameworks.pytorch.tensors.activations import loss_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

_JUDGED = ("NllLoss", "NllLoss2D", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits")
"""Losses whose targets are classes or probabilities."""
_MOST = 16
"""Most frequent labels that are written."""


def look(loss: Any, pass_on: Callable[[Any, Callable[[Any], None]], None]) -> dict[str, Any] | None:
    """Return a fact about the targets of a loss, which `pass_on` completes; None without such a loss."""
    for name, node in loss_nodes(loss):
        if name not in _JUDGED:
            continue
        target, scores = _kept(node, "target"), _kept(node, "self")
        flat = None if target is None or scores is None else values.dense(target)
        if flat is None:
            return None
        fact: dict[str, Any] = {"loss": name, "shape": list(target.shape)}
        ignored = None
        if name.startswith("Nll"):
            ignored = int(node._saved_ignore_index)
            ignored -= (ignored >= 1 << 63) << 64  # torch returns it without its sign
            fact |= {"classes": scores.shape[min(1, scores.dim() - 1)], "ignore_index": ignored}
            fact["after"] = operations(node)[1:6]
        pass_on(values.sampled(flat), partial(_describe, fact, ignored))
        return fact
    return None


def _kept(node: Any, name: str) -> Any:
    """Return a tensor that a node keeps; None if a hook of the script would have to compute it."""
    kept = getattr(node, f"_raw_saved_{name}", None)
    if getattr(kept, "unpack_hook", node) is not None:  # before torch had this attribute: unknown
        return None
    try:
        return getattr(node, f"_saved_{name}")
    except RuntimeError:  # freed, or overwritten
        return None


def _describe(fact: dict[str, Any], ignored: int | None, host: Any) -> None:
    found = values.numbers(host)
    kept = [one for one in found if one != ignored]
    fact |= values.described(kept)
    fact["ignored"] = len(found) - len(kept)
    if ignored is not None:
        fact["most"] = [[int(label), count] for label, count in Counter(kept).most_common(_MOST)]
