"""Within a block, look at what is new or do not: `no_refresh(trial)` and `refresh(trial)`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from holter.compat.smdebug.trials.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def no_refresh(trials: Trial | Sequence[Trial]) -> Iterator[Trial | Sequence[Trial]]:
    """Do not look at what is new within the block; what was before holds again after it, whatever ends it."""
    with _frozen(trials, True):
        yield trials


@contextlib.contextmanager
def refresh(trials: Trial | Sequence[Trial]) -> Iterator[Trial | Sequence[Trial]]:
    """Look at what is new within the block, also inside `no_refresh`."""
    with _frozen(trials, False):
        yield trials


@contextlib.contextmanager
def _frozen(trials: Trial | Sequence[Trial], frozen: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for trial in [trials] if isinstance(trials, Trial) else trials:
            stack.enter_context(trial.source.frozen(frozen))
        yield
