"""Records scikit-learn: fits are ranges, and a step is what scikit-learn repeats in Python.

That is a minibatch of a perceptron, a round of gradient boosting, a call of `partial_fit`, or a fit of a
search or of a cross-validation. A fit whose iterations are in C is one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session


def attach(session: Session) -> Callable[[], None]:
    """Record scikit-learn for `session`; return a function that removes every hook."""
    from holter.recorder.frameworks.scikit_learn.fits import Fits
    from holter.recorder.frameworks.scikit_learn.iterations import Iterations

    fits = Fits(session)
    Iterations(fits).watch()
    return fits.rounds.patches.undo
