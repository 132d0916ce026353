"""Times waiting for the device: `block_until_ready`, `device_get`, and reading values (`float(loss)`)."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import hide, passed_over
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.jax.calls import CompiledCalls

NAME = "wait for the device"


def watch_waits(calls: CompiledCalls) -> None:
    """Hook what waits for arrays."""
    patches, jax = calls.patches, calls.jax
    code = calls.session.name(NAME) << 8 | int(Phase.COMPUTE)
    for name in ("block_until_ready", "device_get"):
        patches.wrap(jax, name, lambda original: _timed(original, calls, code))
    array = sys.modules["jax._src.array"].ArrayImpl
    waits = calls.block_until_ready = array.block_until_ready
    array.block_until_ready = _timed(waits, calls, code)
    patches.later(lambda: setattr(array, "block_until_ready", waits))
    value = vars(array).get("_value")
    if isinstance(value, property) and value.fget is not None:
        array._value = property(_reading(value.fget, calls, code), doc=value.__doc__)
        patches.later(lambda: setattr(array, "_value", value))


def _timed(original: Callable[..., Any], calls: CompiledCalls, code: int) -> Callable[..., Any]:
    local = calls.session.local

    def block_until_ready(*args: Any, **kwargs: Any) -> Any:
        if get_ident() != calls.thread:
            return original(*args, **kwargs)
        local.begin(code)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise
        finally:
            calls.waited(local.end_of(code))

    return passed_over(block_until_ready)


def _reading(original: Callable[[Any], Any], calls: CompiledCalls, code: int) -> Callable[[Any], Any]:
    """Wrap the getter of an array's value; a value that was read before is there at once."""
    timed = _timed(original, calls, code)

    def _value(array: Any) -> Any:
        read = original if array._npy_value is not None else timed
        try:
            return read(array)
        except BaseException as error:
            hide(error)
            raise

    return passed_over(_value)
