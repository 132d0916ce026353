"""Computes the bill of a described job and writes it in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from holter.analysis.jobs.bill import bill
from holter.analysis.verdict.evidence import counted
from holter.views.wording import duration, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.store.trial import Trial
    from holter.views.document.types import Description
    from holter.views.document.types.job import Bill

MOST_FINDINGS = 5


def bill_of(
    trial: Trial, told: Description, price: float | None, machines: float | None = None
) -> Bill | None:
    """Return the bill of a described job; None without a price.

    The default price is that of `holter run --price`, the default number of machines that of the job's nodes.
    Raises `ValueError` if a number is negative or not finite.
    """
    said = trial.manifest.get("price")
    if price is None and isinstance(said, int | float):
        price = said
    if price is None:
        return None
    seconds = told["job"]["duration_s"]
    # A GPU that the job does not use is idle too, and it costs money.
    query = "SELECT avg(value) AS busy FROM samples WHERE metric = 'gpu.util' AND NOT isnan(value)"
    busy = trial.sql(query)["busy"].tolist()
    loop_s = told["phases"]["training_loop_s"] if told["phases"] else None
    made = bill(
        price=price,
        machines=len(told["nodes"]) or 1 if machines is None else machines,
        hours=None if seconds is None else seconds / 3600,
        busy_pct=float(busy[0]) if busy and busy[0] == busy[0] else None,
        loop_h=None if loop_s is None else loop_s / 3600,
        breakdown=told["breakdown"],
        rules=told["rules"],
    )
    return cast("Bill", made)


def bill_lines(found: Bill) -> Iterator[str]:
    """Write a bill in sentences: the job, its idle part, then the daily cost of findings."""
    machines = counted(found["machines"], "machine")
    if found["cost"] is None or found["hours"] is None:
        yield f"unknown: how long the job ran is not known ({found['price']:g} an hour, {machines})"
    else:
        took = duration(found["hours"] * 3600)
        yield f"{money(found['cost'])}: {took} on {machines} at {found['price']:g} an hour"
    if idle := found["idle"]:
        who = "the accelerators were idle" if idle["of"] == "accelerators" else "steps waited"
        yield f"{money(idle['cost'])} of it while {who} ({percent(idle['pct'])})"
    for one in found["findings"][:MOST_FINDINGS]:
        yield f"{one['rule']} costs {money(one['per_day'])} a day of training ({percent(one['lost_pct'])})"


def money(value: float | None) -> str:
    """Write an amount; the price defines the currency."""
    if value is None:
        return "unknown"
    return f"{value:,.2f}" if value == 0 or abs(value) >= 0.01 else f"{value:.2g}"
