"""smdebug's names for reading tensors, on holter's store: `from holter.compat import smdebug as smd`."""

from holter.compat.smdebug import exceptions
from holter.compat.smdebug.modes import StepState, modes
from holter.compat.smdebug.opening import create_trial
from holter.compat.smdebug.refreshing import no_refresh, refresh
from holter.compat.smdebug.tensors import Tensor
from holter.compat.smdebug.trials import Collection, Trial

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
