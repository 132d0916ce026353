"""Records the memory of the training's GPU as scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

EVERY = 50
"""Steps from one reading to the next."""
_SCALARS = {
    "cuda.allocated": "allocated_bytes.all.current",
    "cuda.allocated_peak": "allocated_bytes.all.peak",
    "cuda.reserved_peak": "reserved_bytes.all.peak",
    "cuda.inactive_split": "inactive_split_bytes.all.current",
    "cuda.alloc_retries": "num_alloc_retries",
    "cuda.ooms": "num_ooms",
}
"""Name of a scalar → name in torch's memory statistics."""


def write_memory(adapter: AdapterState, step: int) -> None:
    """Write the memory of the current GPU, if the training has initialized CUDA."""
    cuda = adapter.torch.cuda
    if not cuda.is_initialized():
        return
    statistics = cuda.memory_stats()
    scalar = adapter.session.scalar
    for name, key in _SCALARS.items():
        if key in statistics:
            scalar(name, float(statistics[key]), step)
    scalar("cuda.total", float(cuda.get_device_properties(cuda.current_device()).total_memory), step)
