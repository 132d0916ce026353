"""Turns a comparison of jobs into sentences and table rows, for the terminal and the pages."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from holter.analysis.verdict.evidence import counted
from holter.views.comparison.disturbed import NOT_COMPARABLE
from holter.views.comparison.own_code import lines
from holter.views.comparison.tensor_lines import tensor_lines
from holter.views.comparison.traces import trace_lines
from holter.views.document.bill import money
from holter.views.wording import duration, milliseconds, percent, size, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holter.views.comparison.types import (
        ComparedJob,
        ComparedMachine,
        ComparedStep,
        Difference,
        JobChange,
        RunSaving,
    )

MOST_CHANGED, MOST_FUNCTIONS = 12, 4
_LONGEST_PROBLEM = 48
_SIDES: tuple[tuple[Literal["before", "after"], str], ...] = (
    ("before", "the baseline"),
    ("after", "the other job"),
)


def comparison_rows(jobs: list[ComparedJob]) -> Iterator[tuple[str, Callable[[ComparedJob], str]]]:
    """Yield the rows of the table: a name, and the function that returns the cell of a job."""
    if any(job["headline"] for job in jobs):
        yield "problem", lambda job: _problem(job["headline"])
    yield "verdict", lambda job: words(job["suspect"])
    if any(job["gpu_pct"] is not None for job in jobs):
        yield "GPU, median", lambda job: percent(job["gpu_pct"])
    if any(job["cpu_pct"] is not None for job in jobs):
        yield "CPU, median", lambda job: percent(job["cpu_pct"])
    for key, name in (("mean_ms", "step, mean"), ("p50_ms", "step, median"), ("p99_ms", "step, p99")):
        yield name, lambda job, key=key: milliseconds(job["steps"][key])  # type: ignore[misc]
    parts = [
        part for part in (jobs[0]["breakdown"] or {}) if any((j["breakdown"] or {}).get(part) for j in jobs)
    ]
    for part in parts:
        yield f"  {words(part)}", lambda job, part=part: _part(job, part)  # type: ignore[misc]
    if any(job["epoch_h"] is not None for job in jobs):
        yield "epoch", lambda job: duration(_seconds(job["epoch_h"]))
    yield "initialization", lambda job: duration(job["phases"]["initialization"])
    if any(job["conditions"]["cpu_ms"] is not None for job in jobs):
        yield "CPU time for a step", lambda job: milliseconds(job["conditions"]["cpu_ms"])
    if any(job["conditions"]["waited_pct"] is not None for job in jobs):
        yield "wait for a core", lambda job: percent(job["conditions"]["waited_pct"])
    yield "whole job", lambda job: duration(_seconds(job["duration_h"]))
    if any(job["cost"] is not None for job in jobs):
        yield "cost of the job", lambda job: money(job["cost"])
        yield (
            "  of it idle",
            lambda job: money(job["bill"]["idle"]["cost"] if job["bill"] and job["bill"]["idle"] else None),
        )
        yield "  of it data loading", lambda job: money((job["cost_of_parts"] or {}).get("data_loading"))
    yield "issues", lambda job: str(len(job["issues"]))


def _part(job: ComparedJob, part: str) -> str:
    """Return time and share of a part: in a shorter step, less time may be a larger share."""
    shares = job["breakdown"] or {}
    share, mean = shares.get(part), job["steps"]["mean_ms"]
    if share is None or mean is None or "idle" in shares:  # those are shares of the time of GPUs
        return percent(share)
    return f"{milliseconds(mean * share / 100)}, {percent(share)}"


def _problem(headline: str | None) -> str:
    """Return the beginning of a headline: what broke, and in which step."""
    text = re.split(r" \(rank|[;.:] ", headline or "", maxsplit=1)[0]
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[: _LONGEST_PROBLEM - 1]}…"


def changes(change: JobChange) -> Iterator[str]:
    """Describe a change in sentences, the most important first; only changes that the numbers support."""
    step = change["step"]
    if change["tensors"]:
        yield from tensor_lines(change["tensors"])
    if change["traces"]:
        yield from trace_lines(change["traces"])
    unread = change["tensors"]["unread"] if change["tensors"] else []
    yield from (text for text in change["missing"] if text not in unread)
    if change["disturbance"]:
        text = change["disturbance"]["sentence"]
        yield f"{text}." if comparable(change) else f"{text}; {NOT_COMPARABLE}."
    if step:
        yield step_sentence(step, comparable(change))
    whole = sum(part["before_ms"] for part in change["parts"])
    moved = [part for part in change["parts"] if abs(part["difference_ms"]) >= 0.01 * whole]
    if step and step["certain"] and moved and comparable(change):
        told = ", ".join(f"{words(part['part'])} {_signed(part['difference_ms'])}" for part in moved[:4])
        yield f"In a step: {told}."
    if comparable(change):
        yield from lines(change["own_code"][:MOST_FUNCTIONS])
        if change["saving"]:
            yield _saving(change["saving"])
    changed, unknown = _known(change["changed"])
    for what in changed[:MOST_CHANGED]:
        tell = _hardware if what["what"] == "hardware" else _value
        yield f"changed: {what['what']}: {tell(what['before'])} → {tell(what['after'])}"
    yield from unknown
    more = len(changed) - MOST_CHANGED
    if more > 0:
        yield f"and {more} more differences; --json has them all"


def _known(changed: list[Difference]) -> tuple[list[Difference], list[str]]:
    """Return the changes, and a sentence if a job recorded no packages."""
    packages = [one for one in changed if one["what"].startswith("packages ")]
    for side, name in _SIDES:
        if len(packages) > MOST_CHANGED and all(one[side] is None for one in packages):
            text = f"packages cannot be compared: of {name} none were recorded"
            return [one for one in changed if one not in packages], [text]
    return changed, []


def comparable(change: JobChange) -> bool:
    """Return whether step times of two jobs can be compared: nothing from outside explains the change."""
    return change["disturbance"] is None or change["disturbance"]["comparable"]


def step_sentence(step: ComparedStep, comparable: bool = True) -> str:
    """Describe the change of the step time, with its interval; of a disturbed job only the times."""
    interval = f"95 % interval {step['ratio_low']:.3g} to {step['ratio_high']:.3g}"
    ratio = step["ratio"]
    times = (
        f"{milliseconds(step['before_ms'])} before, {milliseconds(step['after_ms'])} after "
        f"({_signed(step['after_ms'] - step['before_ms'])}, ratio {ratio:.3g}, {interval})"
    )
    if not comparable:
        return f"By wall time, a step takes {times}."
    if not step["certain"]:
        return f"No certain difference in step time: {times}."
    share, word = (100 - 100 * ratio, "less") if ratio < 1 else (100 * ratio - 100, "more")
    return f"A step takes {share:.3g} % {word} time: {times}."


def _signed(value_ms: float) -> str:
    """Write a difference of times with its sign: `+1.2 ms`."""
    return f"{'-' if value_ms < 0 else '+'}{milliseconds(abs(value_ms))}"


def _saving(found: RunSaving) -> str:
    whole = f"{found['count']:,g} {found['of']}"
    before, after, saved = found["hours_before"], found["hours_after"], found["hours_saved"]
    kind = "saved" if saved >= 0 else "extra"
    text = f"{whole}: {_time(before)} before, {_time(after)} after, {_time(abs(saved))} {kind}"
    if found["money_saved"] is None:
        return f"{text}."
    machines = f" on {found['nodes']:g} machines" if found["nodes"] != 1 else ""
    return f"{text}, {money(abs(found['money_saved']))} at {found['price']:g} an hour{machines}."


def _time(hours: float) -> str:
    """Write hours as an item of a bill; without hours, return an empty text."""
    return f"{hours:.4g} h" if hours >= 1 else duration(3600 * hours)


def _seconds(hours: float | None) -> float | None:
    return None if hours is None else hours * 3600


def _hardware(nodes: list[ComparedMachine]) -> str:
    """Name each kind of machine once, with its number."""
    kinds = Counter(_machine(node) for node in nodes)
    return ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items()) or "unknown"


def _machine(node: ComparedMachine) -> str:
    gpus = Counter(str(gpu or "GPU") for gpu in node["gpus"])
    cpus = "CPUs unknown" if node["cpus"] is None else counted(node["cpus"], "CPU")
    memory = "" if node["memory_bytes"] is None else f" {size(node['memory_bytes'])}"
    return " + ".join([f"{cpus}{memory}", *(f"{count} x {gpu}" for gpu, count in gpus.items())])


def _value(value: Any) -> str:
    if value is None:
        return "not there"
    if isinstance(value, dict):  # a framework: its name, version and device
        return " ".join(str(one) for one in value.values() if one)
    text = (
        shlex.join(map(str, value))
        if isinstance(value, list) and all(isinstance(v, str) for v in value)
        else str(value)
    )
    return text if len(text) <= 120 else f"{text[:119]}…"
