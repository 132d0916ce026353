"""RepeatedRecompilation: a function is compiled again and again, because its arguments change."""

from __future__ import annotations

from typing import Any

from holter.rules import Issues, Rule, Window, parameter, rule_class
from holter.rules.engine.levels import severity_of, worth
from holter.rules.patterns.event_details import details_of

_MOST_CAUSES = 5


@rule_class
class RepeatedRecompilation(Rule):
    """A function of JAX is compiled for ever new arguments; the rule says which argument changes."""

    reads = ("events/compiled",)
    formula = (
        "compilations of one function on one rank after its first >= info, warning, or critical; those of "
        "single operations count after the first skip_steps"
    )
    advice = (
        "Pad batches to a few sizes and drop the last short one, pass numbers that change as arrays and not "
        "as static arguments, and call jax.jit once, outside of the loop."
    )
    packs = ("default", "performance")
    every_s = 30.0

    info: int | None = parameter(3, low=1, unit="compilations")
    """Compilations after the first from which the rule reports a note."""
    warning: int | None = parameter(5, low=1, unit="compilations")
    """Compilations after the first that are a warning."""
    critical: int | None = parameter(30, low=1, unit="compilations")
    """Compilations after the first that are critical."""
    skip_steps: int = parameter(10, low=0, unit="steps")
    """First steps, in which operations outside of compiled functions may compile."""
    min_lost_s: float = parameter(5.0, low=0, unit="s")
    """Less time lost on compiling again is a note at most; below a fifth of it nothing is reported."""

    def evaluate(self, window: Window) -> Issues:
        """Count the compilations of each function with their causes; report the one that took longest."""
        known: dict[str, dict[str, Any]] = window.state.setdefault("functions", {})
        for row, detail in details_of(window.new("events"), "compiled"):
            if detail.get("jitted", True) or int(detail.get("step", 0)) >= self.skip_steps:
                _count(known, int(row["rank"]), int(row["time"]), detail)
        if not known:
            return window.insufficient("no_input", "nothing was compiled by JAX")
        window.judged(sum(one["again"] for one in known.values()) + len(known))
        found = [one for one in known.values() if self._severity(one) is not None]
        if not found:
            return
        worst = max(found, key=lambda one: (one["seconds"], one["again"], one["function"]))
        causes = sorted(worst["causes"], key=lambda one: (-one["count"], one["argument"]))
        yield self.issue(
            f"{_called(worst)} was compiled {worst['again']} more times after its first, for "
            f"{worst['seconds']:.3g} s in all: {_text(causes[0])}",
            severity=self._severity(worst),
            code=worst["function"],
            rank=worst["rank"] if worst["rank"] >= 0 else None,
            step_start=worst["first_step"],
            step_end=worst["last_step"],
            time_start=worst["first_time"],
            time_end=worst["last_time"],
            evidence={
                "function": worst["function"],
                "recompilations": worst["again"],
                "lost_s": worst["seconds"],
                "causes": causes[:_MOST_CAUSES],
                "others": sorted(one["function"] for one in found if one is not worst),
            },
        )

    def _severity(self, one: dict[str, Any]) -> Any:
        reached = severity_of(one["again"], self.info, self.warning, self.critical)
        return worth(reached, one["seconds"], self.min_lost_s)


def _count(known: dict[str, dict[str, Any]], rank: int, time: int, detail: dict[str, Any]) -> None:
    """Add one compilation; the first of a process counts as its start."""
    function, step = str(detail.get("function", "")), int(detail.get("step", 0))
    one = known.setdefault(
        f"{rank} {detail.get('jitted', True)} {function}",
        {
            "function": function, "rank": rank, "jitted": bool(detail.get("jitted", True)), "again": 0,
            "seconds": 0.0, "first_step": step, "last_step": step, "first_time": time, "last_time": time,
            "causes": [],
        },
    )  # fmt: skip
    if int(detail.get("number", 1)) < 2:
        return
    one["again"] += 1
    one["seconds"] += float(detail.get("seconds", 0.0))
    one["last_step"], one["last_time"] = step, time
    change, argument = str(detail.get("change", "")), str(detail.get("argument", ""))
    cause = next((c for c in one["causes"] if (c["change"], c["argument"]) == (change, argument)), None)
    if cause is None:
        cause = {"change": change, "argument": argument, "count": 0}
        one["causes"].append(cause)
    cause["count"] += 1
    cause["before"], cause["after"] = str(detail.get("before", "")), str(detail.get("after", ""))


def _called(one: dict[str, Any]) -> str:
    return one["function"] if one["jitted"] else f"the single operation {one['function']}"


def _text(cause: dict[str, Any]) -> str:
    """Say why a function was compiled again, most of the times."""
    if cause["change"] == "function":
        return "jax.jit was called again for the same source, so that JAX knew nothing of it"
    if not cause["argument"]:
        return "JAX does not report why"
    of = f"the {cause['change']} of {cause['argument']} changed {cause['count']} times"
    return f"{of}, the last time from {cause['before']} to {cause['after']}"
