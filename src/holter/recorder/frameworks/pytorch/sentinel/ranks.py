"""How the ranks of a training exchange gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks.pytorch.tensors.names import inner

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.distributed import Distributed


def exchange(torch: Any, distributed: Distributed | None, model: Any) -> dict[str, Any]:
    """Return the number of ranks, and what is known of their exchange; `model` is the last one called."""
    of_torch = getattr(torch, "distributed", None)
    if distributed is None or of_torch is None or not of_torch.is_available():
        return {"world": 1}
    if not of_torch.is_initialized() or (world := of_torch.get_world_size()) == 1:
        return {"world": 1}
    ddp = distributed.ddp
    return {
        "world": world,
        "reductions": distributed.reductions,
        "exchanges": distributed.exchanges,
        "ddp": ddp is not None,
        "ddp_ranks": None if ddp is None else ddp.process_group.size(),
        "ddp_hook": bool(getattr(ddp, "_comm_hooks", ())),
        "unwrapped": ddp is not None and model is not None and model is inner(ddp),
    }
