"""Records CHECKPOINT spans: calls that write the state of a training to a file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.frameworks.pytorch.stepping.adapter_state import NAN
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.frameworks.pytorch.patches import Patches
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

LATER = {
    "torch.distributed.checkpoint": ("save", "save_state_dict"),
    "safetensors.torch": ("save_file", "save_model"),
}
"""Modules that `import torch` does not load → their functions that write a checkpoint."""


class CheckpointHooks:
    """Times checkpoints; the size of one is the size of the file or folder that it wrote."""

    def __init__(self, adapter: AdapterState) -> None:
        self.adapter = adapter
        self.breaker = adapter.breaker("checkpoint")

    def attach(self, patches: Patches) -> None:
        """Wrap `torch.save` now, and other functions when the script imports their modules."""
        patches.wrap(self.adapter.torch, "save", self._watch("torch.save"))
        for module, names in LATER.items():

            def wrap(module: str, names: tuple[str, ...] = names) -> None:
                try:
                    for name in names:
                        patches.wrap(sys.modules[module], name, self._watch(f"{module}.{name}"))
                except Exception as error:
                    self.breaker.fault(error)

            imports.when_imported(module, wrap)

    def _watch(self, title: str) -> Callable[[Any], Any]:
        code = self.adapter.code(Phase.CHECKPOINT, title)
        return lambda original: self.adapter.timed(original, code, self.breaker, "saving", _size_written)


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
