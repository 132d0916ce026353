"""Looks at the precision of a training: autocast, results in 16 bits, float16 weights, scaled losses."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import Patches

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

WATCHED = 8
"""Watched steps that this looks at, from the first one on: later ones compute alike."""
NODES = 2000
"""Nodes of the graph of a loss that are looked at."""
_OPAQUE = ("CompiledFunction", "CheckpointFunction", "GraphModule")
"""Nodes that hide the operations inside."""


class PrecisionWatch:
    """Compares the precision that autocast requests with that of the results."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self._patches = Patches()
        self._left = WATCHED
        self.begin()

    def attach(self, patches: Patches) -> None:
        """Hear of autocast regions until all watched steps have passed.

        Every region calls this function of torch. A compiler and TorchScript treat the class of regions
        specially, so its methods stay as they are.
        """
        breaker = self.adapter.breaker("sentinel_precision")
        self._patches.after(self.adapter.torch, "autocast_increment_nesting", self._on_autocast, breaker)
        patches.later(self._patches.undo)

    def begin(self) -> None:
        """Prepare for a step that is due."""
        self._asked = ""
        self._low: bool | None = False
        self._scaled = False
        self._half = self._held = 0

    def _on_autocast(self, *_: Any) -> None:
        torch = self.adapter.torch
        if not self._asked and torch.is_grad_enabled():
            self._asked = _requested(torch)

    def on_loss(self, graph: Any, *, scaled: bool) -> None:
        """Look at the graph of a loss."""
        if self._left:
            self._scaled = self._scaled or scaled
            self._asked = self._asked or _requested(self.adapter.torch)  # one region around all steps
            if self._asked and self._low is not True:
                found = computes_low(self.adapter.torch, graph.grad_fn)
                self._low = found if found or self._low is False else None

    def before(self, parameters: list[Any]) -> None:
        """Count the float16 parameters that an optimizer holds."""
        if self._left:
            half = self.adapter.torch.float16
            self._half += sum(one.dtype is half for one in parameters)
            self._held += len(parameters)

    def facts(self) -> dict[str, Any]:
        """Return what the step has shown; nothing after the watched steps."""
        if not self._left:
            return {}
        self._left -= 1
        if not self._left:
            self._patches.undo()
        found = {
            "asked": self._asked,
            "low": self._low,
            "scaled": self._scaled,
            "half": self._half,
            "held": self._held,
        }
        return {"precision": found}


def _requested(torch: Any) -> str:
    """Return the type of the autocast region that surrounds this call; empty outside of all regions."""
    if hasattr(torch, "get_autocast_dtype"):
        found = [
            torch.get_autocast_dtype(kind) for kind in ("cuda", "cpu") if torch.is_autocast_enabled(kind)
        ]
    else:
        found = [torch.get_autocast_gpu_dtype()] if torch.is_autocast_enabled() else []
        found += [torch.get_autocast_cpu_dtype()] if torch.is_autocast_cpu_enabled() else []
    return str(found[0]).removeprefix("torch.") if found else ""


def computes_low(torch: Any, node: Any) -> bool | None:
    """Return whether a result in the graph of a loss has 16 bits; None if parts of the graph are hidden."""
    low = (torch.bfloat16, torch.float16)
    seen: set[Any] = set()
    waiting, hidden = deque([node]), node is None
    while waiting and len(seen) < NODES:
        node = waiting.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        results = getattr(node, "_input_metadata", None)
        if any(one.dtype in low for one in results or ()):
            return True
        hidden = hidden or results is None or node.name().startswith(_OPAQUE)
        waiting.extend(one for one, _ in node.next_functions)
    return None if hidden or waiting else False
