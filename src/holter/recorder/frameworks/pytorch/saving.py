"""Records CHECKPOINT spans: calls that write the state of a training to a file."""

from __future__ import annotations

import sys
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.written import size_written
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState
    from holter.recorder.patches import Patches

LATER = {
    "torch.distributed.checkpoint": ("save", "save_state_dict"),
    "safetensors.torch": ("save_file", "save_model"),
    "lightning.fabric.plugins.io.torch_io": ("TorchCheckpointIO.save_checkpoint",),
    "lightning_fabric.plugins.io.torch_io": ("TorchCheckpointIO.save_checkpoint",),
}
"""Modules that `import torch` does not load → their functions and methods that write a checkpoint."""


def watch_checkpoints(adapter: AdapterState, patches: Patches) -> None:
    """Time `torch.save` now, and other functions when the script imports their modules.

    The size of a checkpoint is the size of the file or folder that it wrote.
    """
    breaker = adapter.breaker("checkpoint")

    def watch(owner: Any, module: str, names: tuple[str, ...]) -> None:
        for name in names:
            code = adapter.code(Phase.CHECKPOINT, f"{module}.{name}")
            timed = partial(adapter.timed, code=code, breaker=breaker, flag="saving", value=size_written)
            *classes, function = name.split(".")
            patches.wrap(reduce(getattr, classes, owner), function, timed)

    def watch_imported(module: str) -> None:
        try:
            watch(sys.modules[module], module, LATER[module])
        except Exception as error:
            breaker.fault(error)

    watch(adapter.torch, "torch", ("save",))
    for module in LATER:
        imports.when_imported(module, watch_imported)
