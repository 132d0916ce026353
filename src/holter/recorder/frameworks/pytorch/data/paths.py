"""Names stacks: the frames below the fetch of a batch, outermost first, joined by `;`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holter.recorder.sampling.frames import frame_text, is_library

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from holter.recorder.session import Session

MAX_FRAMES = 8
MAX_PATHS = 4096
_MAX_DEPTH = 256
_TOO_MANY = "(other)"


class Paths:
    """The names of stacks."""

    def __init__(self, session: Session, fetch_codes: tuple[CodeType, ...]) -> None:
        self._session = session
        self._fetch_codes = fetch_codes
        # By id: a comparison of code objects reads all of them. They stay alive, so their ids stay valid.
        self._known: dict[tuple[int, ...], tuple[list[CodeType], int]] = {}
        self.count = 0
        """Number of named stacks."""

    def name(self, frame: FrameType | None) -> int:
        """Return the name id of the stack with this innermost frame; 0 outside of a fetch."""
        codes: list[CodeType] = []
        line = 0
        top = frame
        while frame is not None:
            code = frame.f_code
            if any(code is each for each in self._fetch_codes):
                break
            codes.append(code)
            frame = frame.f_back
            if len(codes) > _MAX_DEPTH:
                return 0
        else:
            return 0
        codes.reverse()
        kept = _worth_naming(codes)
        if not kept:
            return 0
        if len(kept) == 1 and top is not None:
            # A function of the dataset itself: the name contains the line.
            while top is not None and top.f_code is not kept[0]:
                top = top.f_back
            line = 0 if top is None else top.f_lineno or 0
        key = (*map(id, kept), line)
        known = self._known.get(key)
        if known is None:
            if self.count >= MAX_PATHS:
                return self._session.name(_TOO_MANY)
            self.count += 1
            text = ";".join(frame_text(code, line or code.co_firstlineno) for code in kept)
            known = self._known[key] = (kept, self._session.name(text))
        return known[1]


def _worth_naming(codes: list[CodeType]) -> list[CodeType]:
    """Remove wrapping datasets, frames of module calls and of the recorder, and frames in the middle."""
    kept = [code for code in codes if not code.co_filename.endswith(_PLUMBING)]
    kept = [code for code in kept if not code.co_filename.startswith(_OURS)]
    first = next((i for i, code in enumerate(kept) if not _wraps(code.co_filename)), None)
    kept = kept[-1:] if first is None else kept[first:]
    excess = len(kept) - MAX_FRAMES
    if excess > 0:
        # Remove frames of libraries first, from the middle: both ends and the user's frames are informative.
        middle = range(1, len(kept) - 1)
        dropped = sorted(middle, key=lambda i: (not is_library(kept[i]), abs(i - len(kept) / 2)))[:excess]
        kept = [code for i, code in enumerate(kept) if i not in dropped]
    return kept


def _wraps(file: str) -> bool:
    return any(folder in file for folder in _WRAPPING)


_WRAPPING = (
    os.path.join("torch", "utils", "data", ""),
    os.path.join("keras", "src", "trainers", "data_adapters", ""),
)
_PLUMBING = os.path.join("torch", "nn", "modules", "module.py")
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
