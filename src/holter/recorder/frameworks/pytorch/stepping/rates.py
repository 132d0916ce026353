"""Records the learning rate when it changes, and once in `LR_EVERY` steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

LR_EVERY = 100
"""Steps after which an unchanged learning rate is recorded again."""


class LearningRate:
    """That of an optimizer's first group."""

    def __init__(self, adapter: AdapterState) -> None:
        self._adapter = adapter
        self._value: float | None = None

    def note(self, optimizer: Any) -> None:
        """A step of this optimizer is over."""
        groups = optimizer.param_groups
        value = groups[0].get("lr") if groups else None
        adapter = self._adapter
        adapter.rate_left -= 1
        if value is adapter.rate and value is not None and adapter.rate_left >= 0:
            return
        rate = value if type(value) is float else None  # a tensor may be changed where it is
        if type(value) is not float:
            if isinstance(value, int):
                value = float(value)
            elif value is None or not getattr(value, "is_cpu", False):
                return  # on a device: reading it would wait for the device
            else:
                value = float(value)
        adapter.rate = rate
        if value != self._value or adapter.rate_left < 0:
            self._value, adapter.rate_left = value, LR_EVERY - 1
            if "lr" not in adapter.logged_names:
                adapter.session.scalar("lr", value)
