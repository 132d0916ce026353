"""The learning rate, whenever it changes and now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.recorder.session import Session

LR_EVERY = 100
"""Steps after which an unchanged learning rate is recorded again."""


class LearningRate:
    """That of an optimizer's first group."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._value: float | None = None
        self._age = 0

    def note(self, optimizer: Any) -> None:
        """A step of this optimizer is over."""
        groups = optimizer.param_groups
        value = groups[0].get("lr") if groups else None
        self._age += 1
        if value is self._value and self._age < LR_EVERY:
            return
        if type(value) is not float:
            if isinstance(value, int):
                value = float(value)
            elif value is None or not getattr(value, "is_cpu", False):
                return  # on a device: reading it would wait for the device
            else:
                value = float(value)
        if value != self._value or self._age >= LR_EVERY:
            self._value, self._age = value, 0
            if "lr" not in self._session.told:
                self._session.scalar("lr", value)
