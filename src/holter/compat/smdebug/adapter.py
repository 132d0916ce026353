"""A rule written for smdebug, as a rule of holter's: it follows the job's tensors step by step."""

from __future__ import annotations

import inspect
from dataclasses import make_dataclass
from typing import TYPE_CHECKING, Any

from holter.compat.smdebug.core.modes import StepState
from holter.compat.smdebug.exceptions import (
    NoMoreData,
    RuleEvaluationConditionMet,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from holter.rules import Rule, parameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holter.rules import Issue, Window

_OURS = ("self", "base_trial", "action_str", "other_trials")
SKIPPED = (TensorUnavailableForStep, StepUnavailable, TensorUnavailable)
"""A step that lacks something is skipped, and only that step."""
_TYPES = (bool, int, float, str)


def adapted(upstream: Any) -> type[Rule]:
    """Return holter's rule for a class derived from smdebug's; its arguments become parameters."""
    arguments = [a for n, a in inspect.signature(upstream.__init__).parameters.items() if n not in _OURS]
    named = [a for a in arguments if a.kind in (a.POSITIONAL_OR_KEYWORD, a.KEYWORD_ONLY)]
    given = [(a.name, *_declared(a)) for a in named]
    given += [
        ("other_trials", str, parameter("")),
        ("start_step", int, parameter(0, low=0)),
        ("end_step", int, parameter(-1, low=-1)),
    ]
    text = (inspect.getdoc(upstream) or upstream.__name__).split("\n\n")[0]

    def evaluate(self: Any, window: Window) -> Iterator[Issue]:
        yield from _followed(self, window, upstream, [a.name for a in named])

    made = make_dataclass(
        upstream.__name__,
        given,
        bases=(Rule,),
        namespace={
            "__doc__": text,
            "__module__": upstream.__module__,
            "made_of": upstream,
            "reads": ("tensors",),
            "category": "training",
            "description": text.rstrip("."),
            "evaluate": evaluate,
        },
        frozen=True,
        kw_only=True,
    )
    made.__qualname__ = f"{upstream.__name__}_rule"
    return made


def _declared(argument: inspect.Parameter) -> tuple[type, Any]:
    """Return type and default of a parameter; what has no plain default is text, as upstream passes it."""
    default = argument.default
    if type(default) in _TYPES:
        return type(default), parameter(default)
    return str, parameter("")


def _followed(made: Any, window: Window, upstream: Any, names: list[str]) -> Iterator[Issue]:
    """Judge the steps that are complete by now and were not judged before."""
    step = max(window.state.get("next", 0), made.start_step)
    if not window.job.url:
        window.insufficient("no_input", "a rule of smdebug's needs a job in a store")
        return
    judged = 0
    rule = _RUNNING.get((window.job.url, made)) or _opened(made, window.job.url, upstream, names)
    while made.end_step < 0 or step < made.end_step:
        state = rule.base_trial.has_passed_step(step)
        if state is StepState.NOT_YET_AVAILABLE:
            break
        try:
            if state is StepState.AVAILABLE:
                judged += 1
                rule.invoke(step)
        except RuleEvaluationConditionMet as met:
            yield made.issue(
                f"{made.description} (step {step})",
                step_start=step,
                step_end=step,
                time_end=window.end,
                evidence={"step": step, **rule.report["Details"]},
            )
            if met.end_of_rule:
                step = 2**62
                break
        except SKIPPED:
            pass
        except (NoMoreData, StepNotYetAvailable):
            break
        if state is not StepState.AVAILABLE and step > max(rule.base_trial.steps(), default=-1):
            break  # the job has ended before it
        step += 1
    window.state["next"] = step
    window.judged(judged)
    if not judged:
        window.insufficient("no_input", "no tensors were saved at any new step")


_RUNNING: dict[Any, Any] = {}
"""Rules that follow a job, as upstream's rules may keep what they like in themselves."""


def _opened(made: Any, url: str, upstream: Any, names: list[str]) -> Any:
    from holter.compat.smdebug import create_trial

    others = [create_trial(path) for path in made.other_trials.split(",") if path.strip()]
    values = {name: getattr(made, name) for name in names if getattr(made, name) != ""}
    taken = inspect.signature(upstream.__init__).parameters
    values |= {"other_trials": others} if "other_trials" in taken else {}
    values |= {"action_str": "[]"} if "action_str" in taken else {}
    rule = upstream(create_trial(url), **values)
    _RUNNING[url, made] = rule
    return rule
