"""Records CHECKPOINT spans: calls that write the state of a training to a file."""

from __future__ import annotations

import os
import sys
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.pytorch.stepping.adapter_state import NAN
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

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
            timed = partial(adapter.timed, code=code, breaker=breaker, flag="saving", value=_size_written)
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


def _size_written(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> float:
    """Return the size in bytes of the file or folder that an argument names; NaN without one."""
    for value in (*args, *kwargs.values()):
        if not isinstance(value, (str, os.PathLike)):
            continue
        path = os.fsdecode(value)
        if os.path.isfile(path):
            return float(os.path.getsize(path))
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                return float(sum(entry.stat().st_size for entry in entries if entry.is_file()))
    return NAN
