"""The ledger for a chat: what a step is spent on, as a picture, a sentence and lines of text."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from holter.analysis.steps.breakdown import breakdown
from holter.analysis.steps.steps import steps as steps_of
from holter.analysis.verdict.evidence import ms
from holter.png import encoded
from holter.schema.phases import BREAKDOWN, SPOKEN
from holter.store.trial import Trial

if TYPE_CHECKING:
    from holter.store.job import JobFolder

WIDTH, HEIGHT = 480, 32
LAST_S = 60
"""The steps of so many seconds count: a message is about now, and a long job is not read as a whole."""
_LEAST_PCT = 1.0
_CELLS = 30
_COLOR = re.compile(r"--(\w+):(?:light-dark\()?#([0-9a-f]{6})\b")


class ChatLedger(NamedTuple):
    """The newest steps of a job."""

    mean_ms: float
    shares: dict[str, float]
    """Part of a step → percent, in the order of a step."""

    def sentence(self) -> str:
        """Return one line, with the parts in the order of the picture."""
        said = (f"{_words(part)} {share:.0f} %" for part, share in self.shares.items())
        return f"one step, {ms(self.mean_ms)}: {', '.join(said)}"

    def lines(self) -> str:
        """Return a bar for each part, for a font of fixed width; the largest part first."""
        parts = sorted(self.shares.items(), key=lambda one: -one[1])
        wide = max(len(_words(part)) for part, _ in parts)
        bars = (
            f"{_words(part):{wide}} {share:3.0f} % {'█' * round(share / 100 * _CELLS)}"
            for part, share in parts
        )
        return "\n".join((f"one step, {ms(self.mean_ms)}", *map(str.rstrip, bars)))

    def picture(self) -> bytes:
        """Return one bar of all parts as a PNG, in the colors of the pages."""
        row, total, whole = bytearray(), 0.0, sum(self.shares.values())
        for part, share in self.shares.items():
            total += share
            row.extend(bytes([BREAKDOWN.index(part)]) * (round(total / whole * WIDTH) - len(row)))
        return encoded([bytes(row)] * HEIGHT, b"".join(bytes.fromhex(_colors()[part]) for part in BREAKDOWN))


def ledger(folder: JobFolder) -> ChatLedger | None:
    """Return the ledger of the newest steps; None without steps, or if the job cannot be read now."""
    try:
        trial = Trial(folder)
        newest = trial.newest("spans")
        if newest is None:
            return None
        steps = steps_of(trial.table("spans", start_ns=newest - LAST_S * 1_000_000_000))
    except (OSError, ValueError):
        return None  # the finding is worth a message without a picture
    found = breakdown(steps, steps["duration"] >= 0)
    shares = {part: share for part, share in found.items() if share >= _LEAST_PCT}
    return ChatLedger(float(steps["duration"].mean()) / 1e6, shares) if shares else None


def _words(part: str) -> str:
    return SPOKEN.get(part, part.replace("_", " "))


@cache
def _colors() -> dict[str, str]:
    """Return the color of each part. The file is read as data: messages know nothing of pages."""
    return dict(_COLOR.findall((files("holter") / "drawing" / "tokens.css").read_text(encoding="utf-8")))
