"""Jobs as rules leave them, for pages that show what rules found."""

from __future__ import annotations

from holter.evaluation import evaluate
from holter.store.job import JobFolder


def judged(folder: JobFolder) -> JobFolder:
    """Let every rule of the usual pack judge a finished job, and keep what they find."""
    evaluate(folder, ["pack:default"], record=True)
    return folder
