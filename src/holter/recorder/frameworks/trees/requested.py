"""What `--save` asks for of a model of trees."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holter.recorder.tensors import requests
from holter.recorder.tensors.collections import AT_END, OF_TREES, TensorInfo
from holter.recorder.tensors.explicit import ExplicitSaver
from holter.schema.phases import Mode
from holter.schema.tensor_spool import ENV_SAVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.recorder.session import Session
    from holter.recorder.tensors.collections import Collection

_TRAIN = Mode.TRAIN.name.lower()


class Requested:
    """The collections that may hold tensors of trees, and where these tensors go."""

    def __init__(self, session: Session) -> None:
        self._session = session
        found = requests.from_environment(os.environ.get(ENV_SAVE))
        self._collections = [one for one in found if one.include_regex or one.roles or one.name in OF_TREES]

    def due(self, *, at_end: bool = False) -> list[Collection]:
        """Return the collections that are saved at this step, or at the end of the training."""
        found = [one for one in self._collections if one.due(_TRAIN, self._session.step)]
        return [one for one in found if at_end or one.name not in AT_END]

    def save(self, name: str, value: Any, role: str) -> None:
        """Save a tensor."""
        if self._session.explicit is None:
            self._session.explicit = ExplicitSaver(self._session)
        self._session.explicit.save(name, value, role)


def wanted(due: Sequence[Collection], name: str, role: str) -> bool:
    """Whether one of the collections holds a tensor."""
    return any(one.holds(TensorInfo(name, "custom", role)) for one in due)
