"""Merges the tensors that meet a rule's condition into one issue per kind, step and rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.rules import Issue, Issues, Rule, Window
    from holter.rules.engine.step_rows import StepRows

LISTED = 50
"""The most tensors that one issue lists, the worst first."""


@dataclass(frozen=True, slots=True)
class TensorFinding:
    """One tensor that meets a rule's condition at one step."""

    tensor: str
    what: str
    """The measured quantity, as in a sentence before `of TENSOR`."""
    value: float
    comparator: str
    threshold: float
    unit: str = ""
    code: str = ""
    role: str = ""
    severity: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


def issues_of(
    rule: Rule,
    window: Window,
    at: StepRows,
    findings: list[TensorFinding],
    *,
    successive: int,
    max_findings: int,
    say: Callable[[list[TensorFinding], int], str],
) -> Issues:
    """Yield one issue for each code, with the tensors that have met the condition often enough.

    Args:
        rule: The rule.
        window: The window that it judges.
        at: The step.
        findings: The tensors that meet the condition at the step.
        successive: In how many evaluations in a row a tensor must meet the condition.
        max_findings: How many different issues are reported; the rest is counted.
        say: Returns the summary of findings of one code at a step.
    """
    groups: dict[str, list[TensorFinding]] = {}
    for finding in _lasting(successive, window, at, findings):
        groups.setdefault(finding.code, []).append(finding)
    about: dict[str, str] = window.state.setdefault("about", {}) if groups else {}
    for code, group in sorted(groups.items()):
        group.sort(key=lambda f: (f.value if f.comparator.startswith("<") else -f.value, f.tensor))
        key = f"{at.rank}/{code}"
        if key not in about and len(about) >= max_findings:
            window.state["more"] = window.state.get("more", 0) + 1
            window.details["findings_left_out"] = window.state["more"]
            continue
        tensor = about.setdefault(key, group[0].tensor)
        yield _issue(rule, at, group, tensor, say(group, at.step))


def _lasting(
    successive: int, window: Window, at: StepRows, findings: list[TensorFinding]
) -> list[TensorFinding]:
    if successive == 1:
        return findings
    # Judged tensors without a finding start over; tensors that were not judged keep their count.
    here, streaks = f"{at.rank}/", window.state.setdefault("streaks", {})
    held = {f"{here}{f.code}/{f.tensor}" for f in findings}
    for key in [k for k in streaks if k.startswith(here) and k not in held]:
        if key.split("/", 2)[2] in at.judged:
            del streaks[key]
    for key in held:
        streaks[key] = streaks.get(key, 0) + 1
    return [f for f in findings if streaks[f"{here}{f.code}/{f.tensor}"] >= successive]


def _issue(rule: Rule, at: StepRows, group: list[TensorFinding], tensor: str, summary: str) -> Issue:
    worst = group[0]
    evidence = {
        "tensors": [f.tensor for f in group[:LISTED]],
        "values": [f.value for f in group[:LISTED]],
        "tensors_in_all": len(group),
        "value": worst.value,
        "comparator": worst.comparator,
        "threshold": worst.threshold,
        "mode": at.mode,
        "role": worst.role or None,
        **worst.more,
    }
    return rule.issue(
        summary,
        code=worst.code,
        severity=worst.severity or rule.severity,
        rank=at.rank if at.rank >= 0 else None,
        tensor=tensor,
        step_start=at.step,
        step_end=at.step,
        evidence=evidence,
        **at.place,
    )
