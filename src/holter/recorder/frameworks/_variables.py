"""Saves weights and gradients that `--save` asks for, where an adapter can read them between two steps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holter.recorder.guard import tell
from holter.recorder.tensors import requests
from holter.recorder.tensors.collections import TensorInfo, is_bias
from holter.recorder.tensors.explicit import ExplicitSaver
from holter.schema.phases import Mode
from holter.schema.tensor_spool import ENV_SAVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holter.recorder.session import Session
    from holter.recorder.tensors.collections import Collection

_TRAIN = Mode.TRAIN.name.lower()
_NUMBERS = "fiub"
"""Kinds of arrays that NumPy itself has; others, such as bfloat16, are converted first."""
_WORDS = {"parameter": "weights", "gradient": "gradients"}
_WITHOUT = ("losses", "default")
"""Collections that need no tensors of a framework."""


class Variables:
    """The collections that may hold variables of a model, and where these go."""

    def __init__(self, session: Session, library: str, kinds: tuple[str, ...] = ("parameter",)) -> None:
        """`kinds` are those of `SOURCES` that `library` offers."""
        self._session, self._library, self._kinds = session, library, kinds
        self._collections: list[Collection] | None = None
        """What is asked for and offered; None before the first step."""

    @property
    def due(self) -> bool:
        """Whether something is saved at this step."""
        collections = self._collections
        if collections is None:
            collections = self._collections = self._asked()
        if not collections:
            return False
        step, stride = self._session.step, self._session.stride
        return any(one.due(_TRAIN, step, stride) for one in collections)

    def _asked(self) -> list[Collection]:
        """Return the collections that are asked for and offered; say which of them are not."""
        given = requests.from_environment(os.environ.get(ENV_SAVE))
        found = [one for one in given if one.sources & set(self._kinds)]
        for one in given:
            if one not in found and one.name not in _WITHOUT:
                offered = " and ".join(_WORDS[kind] for kind in self._kinds) or "no tensors"
                tell(f"collection {one.name!r} is not saved: holter reads {offered} of {self._library}")
        return found

    def save(self, named: Iterable[tuple[str, str, Callable[[], Any]]]) -> None:
        """Save what is due.

        Args:
            named: Kind, name, and what reads the values as an array of NumPy, for each variable; it is called
                only for those that are saved.
        """
        saver = self._session.explicit
        if saver is None:
            saver = self._session.explicit = ExplicitSaver(self._session)
        if not isinstance(saver, ExplicitSaver):
            return  # PyTorch saves tensors of this process
        step, stride = self._session.step, self._session.stride
        due = [one for one in self._collections or () if one.due(_TRAIN, step, stride)]
        for kind, name, read in named:
            role = "grad" if kind == "gradient" else "bias" if is_bias(name) else "weight"
            what = TensorInfo(f"gradient/{name}" if kind == "gradient" else name, kind, role)
            if kind in self._kinds and any(one.holds(what) for one in due):
                values = read()
                if values.dtype.kind not in _NUMBERS:
                    values = values.astype("float32")
                saver.save_as(what, values)
