"""Whether somebody looks at the job: signs of it come through `control.json`, and go stale."""

from __future__ import annotations

import time
from typing import Any

STALE_S = 15.0


class Attention:
    """Remembers the last sign; by our own clock, for whoever gave it may have another."""

    def __init__(self) -> None:
        self._sign: Any = None
        self._since = -STALE_S

    def paid(self, sign: Any) -> bool:
        """Return whether somebody looks; `sign` is another one each time he lets know."""
        now = time.monotonic()
        if sign is not None and sign != self._sign:
            self._sign, self._since = sign, now
        return now - self._since < STALE_S
