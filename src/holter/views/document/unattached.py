"""Says why a job has no steps: an adapter could not attach, or holter knows no framework of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from holter.analysis.verdict.job_verdict import NO_STEP
from holter.schema.record import ADAPTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holter.views.document.types.job import RecorderFault
    from holter.views.document.types.verdict import JobVerdict

_WAY_OUT = (
    "Use a version of {} that holter is tested with, or record it without the adapter: `for batch in "
    "holter.steps(batches):` or `with holter.step()`. Please report this fault."
)
_UNKNOWN = "no framework that holter records was imported, or it is hidden (python -I, -E)"
_MARK = "If the script trains in a loop of its own, mark the steps with `with holter.step():`"


def reasons(faults: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each adapter that could not attach, with its error."""
    seen = set()
    for fault in faults:
        where = str(fault["where"])
        adapter = where.removeprefix(ADAPTER)
        if adapter != where and adapter not in seen:
            seen.add(adapter)
            yield adapter, str(fault["error"])


def said(found: Iterable[tuple[str, str]]) -> str:
    """Return the sentence about adapters that could not attach."""
    return "; ".join(f"holter's adapter of {adapter} failed: {error}" for adapter, error in found)


def told(verdict: JobVerdict, faults: list[RecorderFault], framework: str | None, *, ran: bool) -> JobVerdict:
    """Return the verdict on a job without steps, with why it has none.

    Args:
        verdict: The verdict without steps.
        faults: Faults of the recorder.
        framework: The framework that was recorded.
        ran: Whether holter ran the command; otherwise files were imported.
    """
    found = list(reasons(faults))
    if not found and verdict["sentence"] == NO_STEP and ran:
        # Who ran the command with holter must not read that this would help.
        why = f"{framework} was found, but took none" if framework else _UNKNOWN
        advice = [{"text": _MARK, "expected_step_ms": None, "why": ""}]
        sentence = f"{NO_STEP.partition(',')[0]}: {why}."
        return cast("JobVerdict", {**verdict, "sentence": sentence, "advice": advice})
    if not found:
        return verdict
    sentence = f"{verdict['sentence']} The reason: {said(found)}."
    how = _WAY_OUT.format(" and ".join(adapter for adapter, _ in found))
    advice = [{"text": how, "expected_step_ms": None, "why": ""}]
    return cast("JobVerdict", {**verdict, "sentence": sentence, "advice": advice})
