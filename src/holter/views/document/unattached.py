"""Says of a job without steps which adapter could not attach, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from holter.schema.record import ADAPTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holter.views.document.types.job import RecorderFault
    from holter.views.document.types.verdict import JobVerdict

_WAY_OUT = (
    "Use a version of {} that holter is tested with, or record it without the adapter: `for batch in "
    "holter.steps(batches):` or `with holter.step():`. Please report this fault."
)


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


def told(verdict: JobVerdict, faults: list[RecorderFault]) -> JobVerdict:
    """Return the verdict on a job without steps with the adapters that failed; they are why it has none."""
    found = list(reasons(faults))
    if not found:
        return verdict
    sentence = f"{verdict['sentence']} The reason: {said(found)}."
    how = _WAY_OUT.format(" and ".join(adapter for adapter, _ in found))
    advice = [{"text": how, "expected_step_ms": None, "why": ""}]
    return cast("JobVerdict", {**verdict, "sentence": sentence, "advice": advice})
