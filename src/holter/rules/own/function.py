"""`@rule`: makes a rule from a function of a step."""

from __future__ import annotations

import inspect
from dataclasses import make_dataclass
from typing import TYPE_CHECKING, Any

from holter.parameters import parameter
from holter.rules.own.step import TABLES, Step, completed
from holter.rules.rule import BadRule, Issue, Issues, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.rules.engine.window import Window
    from holter.schema.severity import Severity


def rule(
    *,
    reads: tuple[str, ...] = ("scalars",),
    severity: Severity = "warning",
    advice: str = "",
) -> Callable[[Any], type[Rule]]:
    """Make a rule from a function of a step: `def spike(step, limit: float = 3.0) -> bool`.

    The function is called for each complete step of each rank, in their order. Its other arguments, which
    need defaults, are the rule's parameters; its docstring is the description. It returns true, a sentence or
    an issue for a problem, and None or false otherwise. The rule has the name of the function.

    Args:
        reads: The tables that fill the step: some of `scalars`, `tensors` and `steps`.
        severity: The severity of its issues.
        advice: What to do about them.

    Raises:
        BadRule: A table without steps, or an argument without a default.
    """
    for table in reads:
        if table not in TABLES:
            raise BadRule(f"@rule: reads={table!r} is not valid; there are: {', '.join(TABLES)}")

    def made(function: Any) -> type[Rule]:
        arguments = list(inspect.signature(function, eval_str=True).parameters.values())
        if not arguments:
            raise BadRule(f"@rule: {function.__name__} takes no step; write def {function.__name__}(step)")
        given: list[Any] = []
        for one in arguments[1:]:
            if one.default is one.empty:
                raise BadRule(f"@rule: parameter {one.name!r} of {function.__name__} needs a default")
            kind = type(one.default) if one.annotation is one.empty else one.annotation
            given.append((one.name, kind, parameter(one.default)))
        names = [one.name for one in arguments[1:]]

        def evaluate(self: Any, window: Window) -> Issues:
            values = {name: getattr(self, name) for name in names}
            seen = 0
            for step in completed(window, reads):
                seen += 1
                if (answer := function(step, **values)) is not None and answer is not False:
                    yield _issue(self, step, answer)
            window.judged(seen)
            if not seen and not window.state["last"]:
                window.insufficient("no_input", f"no step has {' or '.join(reads)}")

        text = (inspect.getdoc(function) or function.__name__.replace("_", " ")).split("\n\n")[0]
        cls = make_dataclass(
            function.__name__,
            given,
            bases=(Rule,),
            namespace={
                "__doc__": text,
                "__module__": function.__module__,
                "made_of": staticmethod(function),
                "reads": reads,
                "severity": severity,
                "description": text.rstrip("."),
                "advice": advice,
                "evaluate": evaluate,
            },
            frozen=True,
            kw_only=True,
        )
        cls.__qualname__ = function.__qualname__
        return cls

    return made


def _issue(made: Rule, step: Step, answer: Any) -> Issue:
    if isinstance(answer, Issue):
        return answer
    summary = answer if isinstance(answer, str) else type(made).description
    return made.issue(
        f"{summary} (step {step.number}, rank {step.rank})",
        node=step.node or None,
        rank=step.rank,
        step_start=step.number,
        step_end=step.number,
        time_start=step.time,
        time_end=step.time,
        evidence={"step": step.number, **made.values()},
    )
