"""smdebug's names for reading tensors, on holter's store: `from holter.compat import smdebug as smd`."""

from holter.compat.smdebug import exceptions
from holter.compat.smdebug.analysis.utils import no_refresh, refresh
from holter.compat.smdebug.core.modes import StepState, modes
from holter.compat.smdebug.core.tensor import Tensor
from holter.compat.smdebug.trials.trial import Collection, Trial
from holter.compat.smdebug.trials.utils import create_trial

__all__ = [
    "Collection",
    "StepState",
    "Tensor",
    "Trial",
    "create_trial",
    "exceptions",
    "modes",
    "no_refresh",
    "refresh",
]
