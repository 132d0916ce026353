"""Tensors that meet a rule's condition, told together: one issue of each kind at each step of a rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holter.rules import Issue, Window
    from holter.rules.engine.step_rows import StepRows
    from holter.rules.patterns.tensors import TensorRule

LISTED = 50
"""So many tensors are listed in one issue, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One tensor that meets a rule's condition at one step."""

    tensor: str
    what: str
    """What was measured, as it reads before `of TENSOR`."""
    value: float
    comparator: str
    threshold: float
    unit: str = ""
    code: str = ""
    role: str = ""
    severity: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


def told(rule: TensorRule, window: Window, at: StepRows, findings: list[Finding]) -> Iterator[Issue]:
    """Yield one issue for each code, with the tensors that have met the condition often enough."""
    groups: dict[str, list[Finding]] = {}
    for finding in _lasting(rule.successive, window.state, at, findings):
        groups.setdefault(finding.code, []).append(finding)
    about: dict[str, str] = window.state.setdefault("about", {}) if groups else {}
    for code, group in sorted(groups.items()):
        group.sort(key=lambda f: (f.value if f.comparator.startswith("<") else -f.value, f.tensor))
        key = f"{at.rank}/{code}"
        if key not in about and len(about) >= rule.max_findings:
            window.state["more"] = window.state.get("more", 0) + 1
            window.details["findings_left_out"] = window.state["more"]
            continue
        yield _issue(rule, at, group, about.setdefault(key, group[0].tensor))


def _lasting(successive: int, state: dict[str, Any], at: StepRows, findings: list[Finding]) -> list[Finding]:
    if successive == 1:
        return findings
    # Those that were judged and are no finding start over; those that were not keep their count.
    here, streaks = f"{at.rank}/", state.setdefault("streaks", {})
    held = {f"{here}{f.code}/{f.tensor}" for f in findings}
    for key in [k for k in streaks if k.startswith(here) and k not in held]:
        if key.split("/", 2)[2] in at.judged:
            del streaks[key]
    for key in held:
        streaks[key] = streaks.get(key, 0) + 1
    return [f for f in findings if streaks[f"{here}{f.code}/{f.tensor}"] >= successive]


def _issue(rule: TensorRule, at: StepRows, group: list[Finding], tensor: str) -> Issue:
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
        rule.say(group, at.step),
        code=worst.code,
        severity=worst.severity or rule.severity,
        rank=at.rank if at.rank >= 0 else None,
        tensor=tensor,
        step_start=at.step,
        step_end=at.step,
        evidence=evidence,
        **at.place,
    )
