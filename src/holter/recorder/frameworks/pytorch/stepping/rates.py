"""Records the learning rate when it changes, and once in `LR_EVERY` steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.recorder.frameworks.pytorch.stepping.adapter_state import AdapterState

LR_EVERY = 100
"""Steps after which an unchanged learning rate is recorded again."""


class LearningRate:
    """Records the learning rate of the first parameter group of an optimizer."""

    def __init__(self, adapter: AdapterState) -> None:
        self._adapter = adapter
        self._value: float | None = None

    def note(self, optimizer: Any) -> None:
        """Record the rate after a step of this optimizer."""
        groups, adapter = optimizer.param_groups, self._adapter
        rate = groups[0].get("lr") if groups else None
        adapter.rate_left -= 1
        if rate is adapter.rate and rate is not None and adapter.rate_left >= 0:
            return
        if rate is None or not (isinstance(rate, (int, float)) or getattr(rate, "is_cpu", False)):
            return  # a rate on a device: reading it would wait for the device
        adapter.rate = rate if type(rate) is float else None  # a tensor may change in place
        value = float(rate)
        if value != self._value or adapter.rate_left < 0:
            self._value, adapter.rate_left = value, LR_EVERY - 1
            if "lr" not in adapter.logged_names:
                adapter.session.scalar("lr", value)
