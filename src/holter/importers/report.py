"""What an import did: rows by table, ranks, and what could not be read."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


class UnreadableError(ValueError):
    """Nothing of a file can be read; the text names the file, the place and the reason."""


def own_fault(error: BaseException) -> str:
    """Say that a fault is holter's, not the file's: the kind of error, its place in the code, its text."""
    places = traceback.extract_tb(error.__traceback__)
    ours = [place for place in places if Path(place.filename).parent == Path(__file__).parent] or places
    at = f"{Path(ours[-1].filename).name}, line {ours[-1].lineno}" if ours else "an unknown place"
    return f"a fault of holter's own, please report it: {type(error).__name__} in {at}: {error}"[:300]


@dataclass
class Report:
    """What an import did. Times are nanoseconds."""

    files: dict[str, str] = field(default_factory=dict)
    """Each file that was read, and its format."""
    ranks: dict[str, int] = field(default_factory=dict)
    """The rank of each file that has one."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows written to each table."""
    events: int = 0
    """Events that the files hold, those that no table takes among them."""
    omitted: Counter[str] = field(default_factory=Counter)
    """What was read and not kept, because something else in the tables says the same, and how often."""
    skipped: dict[str, Counter[str]] = field(default_factory=dict)
    """By file, what could not be read, and how often."""
    notes: dict[str, list[str]] = field(default_factory=dict)
    """By file, what a reader of its numbers should know."""
    start_ns: int | None = None
    end_ns: int | None = None
    facts: dict[str, dict[str, object]] = field(default_factory=dict)
    """By file, what it says of its job: devices, world size, versions."""

    def skip(self, file: str, why: str, times: int = 1) -> None:
        """Count what could not be read of a file."""
        self.skipped.setdefault(file, Counter())[why] += times

    def said(self) -> dict[str, object]:
        """Return the part that a job keeps."""
        facts = {file: known for file, known in self.facts.items() if known}
        return {"files": self.files, "ranks": self.ranks, "facts": facts}

    def document(self) -> dict[str, object]:
        """Return all this as plain values, for JSON."""
        return dict(vars(self))
