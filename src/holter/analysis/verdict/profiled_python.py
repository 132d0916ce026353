"""What the windows of a Python profiler recorded of the time outside all known parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.host.python_functions import functions, functions_of_stacks
from holter.analysis.verdict.evidence import steps_text

if TYPE_CHECKING:
    from holter.analysis.host.python_functions import Function
    from holter.schema.table import Table

_MOST = 3
_LARGEST = 3
_HOLDS = 0.5
"""Profiled steps show what takes the time if they have at least this part of its mean."""


@dataclass(frozen=True, slots=True)
class ProfiledPython:
    """Python code outside all known parts, in the profiled steps."""

    first_step: int
    last_step: int
    """Inclusive."""
    functions: list[tuple[str, float]]
    """Name and percent of the profiled time, of its own; the longest first."""
    typical: bool
    """Whether these steps have as much of that time as the others."""
    largest_steps: list[int]
    """The steps with most of that time."""

    @property
    def steps(self) -> str:
        """The profiled steps for people."""
        return steps_text(self.first_step, self.last_step)


def profiled_python(called: Table, sampled: Table, steps: Table) -> ProfiledPython | None:
    """Read a job's Python profile; None without one.

    Args:
        called: Table `python_functions`.
        sampled: Table `python_stacks`.
        steps: Table `steps`, steady state only.
    """
    called = called.where((called["phase"] == "other") & (called["timer"] == "total_time"))
    sampled = sampled.where(np.isin(sampled["phase"], ("other", "any", "program")))
    if sampled.rows:  # what ran before the first step is the start of the program
        sampled = sampled.where((sampled["phase"] != "program") | (sampled["step"] >= 0))
    rows = called if called.rows else sampled
    if not rows.rows or not steps.rows:
        return None
    found: list[Function] = functions(called) if called.rows else functions_of_stacks(sampled)
    whole = sum(one.self_ns for one in found)
    inside = np.isin(steps["step"], np.unique(rows["step"]))
    held = float(steps["other"][inside].mean()) if inside.any() else 0.0
    return ProfiledPython(
        first_step=int(rows["step"].min()),
        last_step=int(rows["step"].max()),
        functions=[(one.name, 100 * one.self_ns / whole) for one in found[:_MOST]] if whole else [],
        typical=held >= _HOLDS * float(steps["other"].mean()),
        largest_steps=sorted(steps["step"][np.argsort(-steps["other"], kind="stable")[:_LARGEST]].tolist()),
    )
