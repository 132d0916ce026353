"""Records the numbers that a Keras training reports, where Keras itself converts them."""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import hide
from holter.schema.phases import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.recorder.frameworks.keras.fitting import Fitting
    from holter.recorder.session import Session


class _Kept(threading.local):
    wanted = False
    values: Any = None


class ReportedNumbers:
    """Keeps the logs of each batch, and writes them on the training thread.

    Keras converts them to numbers in a thread of its own, unless a callback of the user needs them at once. A
    number that is read earlier would make the training wait for the device. Keras reports the mean since the
    epoch began; so do these numbers.
    """

    def __init__(self, session: Session, fitting: Fitting) -> None:
        self._session, self._fitting = session, fitting
        self._kept = _Kept()
        self._waiting: deque[tuple[int, Mapping[str, Any]]] = deque()
        """Step and logs of batches, not yet written."""
        self._added: set[str] = set()
        """Names that the training reports, and that the backend's adapter therefore leaves to it."""

    def attach(self) -> None:
        """Hook the conversion, and the ends of batches, epochs and evaluations."""
        patches, breaker = self._fitting.patches, self._fitting.breaker
        listed = sys.modules["keras.src.callbacks.callback_list"].CallbackList
        patches.after(
            sys.modules["keras.src.utils.python_utils"], "pythonify_logs", self._on_converted, breaker
        )
        patches.wrap(listed, "_on_train_batch_end", self._keeping)
        patches.before(listed, "on_train_begin", self._on_train_begin, breaker)
        patches.after(listed, "on_epoch_end", self._on_epoch_end, breaker)
        patches.before(listed, "on_train_end", self._on_train_end, breaker)
        patches.before(listed, "on_test_end", self._on_test_end, breaker)
        self._fitting.before_end = self._write

    def _on_converted(self, result: Any, *_: object, **__: object) -> None:
        kept = self._kept
        if kept.wanted:
            kept.wanted, kept.values = False, result

    def _keeping(self, original: Any) -> Callable[..., Any]:
        fitting, breaker, kept = self._fitting, self._fitting.breaker, self._kept

        def wrapper(callbacks: Any, batch: int, *args: Any, **kwargs: Any) -> Any:
            ours = breaker.on and callbacks is fitting.callbacks
            kept.wanted = ours
            try:
                return original(callbacks, batch, *args, **kwargs)
            except BaseException as error:
                hide(error)
                raise
            finally:
                if ours:
                    self._keep(batch)

        return wrapper

    def _keep(self, batch: int) -> None:
        kept, fitting = self._kept, self._fitting
        try:
            values, kept.values, kept.wanted = kept.values, None, False
            if values:
                owned = self._session.step_owner == "keras"
                step = fitting.base + fitting.last_of(batch) if owned else self._session.step
                self._waiting.append((step, values))
        except Exception as error:
            fitting.breaker.fault(error)

    def _write(self) -> None:
        """Write the logs of finished batches."""
        while self._waiting:
            step, values = self._waiting.popleft()
            for name, value in values.items():
                if isinstance(value, float) and self._report(name):
                    self._session.scalar(name, value, step)

    def _on_train_begin(self, *_: object, **__: object) -> None:
        if self._fitting.counts:
            self._report("loss")

    def _report(self, name: str) -> bool:
        """Take a number over from the backend's adapter; False if the script logs it itself."""
        if name not in self._session.logged_names:
            self._added.add(name)
            self._session.logged_names.add(name)
        return name in self._added

    def _on_epoch_end(
        self, result: object, callbacks: Any, epoch: int, logs: Any = None, **__: object
    ) -> None:
        """Write the numbers of the last batches, for which Keras has waited, and those of the validation."""
        if not self._fitting.counts or callbacks is not self._fitting.callbacks:
            return
        self._write()
        for name, value in (logs or {}).items():
            if name.startswith("val_") and isinstance(value, float):
                self._session.scalar(name, value, None, int(Mode.EVAL))

    def _on_train_end(self, *_: object, **__: object) -> None:
        if self._fitting.counts:
            self._write()
            self._session.logged_names -= self._added
            self._added.clear()

    def _on_test_end(self, callbacks: Any, logs: Any = None, **__: object) -> None:
        """Write the numbers of an evaluation outside of `fit`."""
        if self._fitting.counts and self._fitting.validates:
            for name, value in (logs or {}).items():
                if isinstance(value, float):
                    self._session.scalar(name, value, None, int(Mode.EVAL))
