"""Reports regular expressions that match no tensor, once, with similar names."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from holter.recorder.guard import tell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from holter.recorder.tensors.collections import Collection

_LOOKS = 2
"""Saved steps after which a regex that matched nothing so far is said to match nothing."""


class Unmatched:
    """Looks at what was seen after the first saved steps."""

    def __init__(self) -> None:
        self._looks = 0
        self._said: set[str] = set()

    def begin(self) -> None:
        """There are further collections: look anew."""
        self._looks = 0

    def look(self, collections: Sequence[Collection], seen: AbstractSet[str], *, last: bool = False) -> None:
        """A saved step is over, `last`: the training is, and these names were seen so far."""
        self._looks += not last
        if not seen or not (self._looks == _LOOKS or last):
            return
        for one in collections:
            for pattern in one.include_regex:
                if pattern in self._said or any(re.search(pattern, name) for name in seen):
                    continue
                self._said.add(pattern)
                near = difflib.get_close_matches(pattern, sorted(seen), n=3, cutoff=0.3)
                hint = f"; there are, among others: {', '.join(near or sorted(seen)[:3])}"
                tell(f"nothing to save matches the regular expression {pattern!r}{hint}")
