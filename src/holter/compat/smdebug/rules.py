"""smdebug's interface of rules: `Rule`, `req_tensors`, `invoke_rule`.

A class derived from `Rule` in a file runs as any rule of one's own does, beside a job or after it, as
`--rule ./my_rule.py:MyRule:threshold=3`: its arguments after `base_trial` and `action_str` are parameters.
"""

from __future__ import annotations

import inspect
import logging
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypedDict

from holter.compat.smdebug.adapter import SKIPPED, adapted
from holter.compat.smdebug.analysis.utils import no_refresh
from holter.compat.smdebug.exceptions import (
    NoMoreProfilerData,
    RuleEvaluationConditionMet,
    TensorUnavailableForStep,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.compat.smdebug.core.tensor import Tensor
    from holter.compat.smdebug.trials.trial import Trial


class _Report(TypedDict):
    RuleTriggered: int
    Violations: int
    Details: dict[str, object]
    Datapoints: int
    RuleParameters: str


class RequiredTensors:
    """The tensors that a rule wants at a step, of one or several trials."""

    def __init__(self, trial: Trial) -> None:
        self._base = trial
        self._wanted: dict[Trial, dict[str, list[int]]] = {}

    def add(
        self,
        name: str,
        steps: Sequence[int],
        trial: Trial | None = None,
        should_match_regex: bool = False,
    ) -> None:
        """Want a tensor, or every one whose name fits, at some steps; of the base trial by default."""
        trial = trial or self._base
        names = trial.tensor_names(regex=name) if should_match_regex else [name]
        for one in names:
            known = self._wanted.setdefault(trial, {}).setdefault(one, [])
            known += [step for step in steps if step not in known]

    def get_names(self, trial: Trial | None = None) -> list[str]:
        """Return the names that are wanted of a trial."""
        return list(self._wanted.get(trial or self._base, {}))

    def get_tensor_steps(
        self, name: str, should_match_regex: bool = False, trial: Trial | None = None
    ) -> list[int] | dict[str, list[int]] | None:
        """Return the steps at which a tensor is wanted; for a pattern, those of every name that fits."""
        trial = trial or self._base
        wanted = self._wanted.get(trial, {})
        if should_match_regex:
            return {one: wanted[one] for one in trial.tensor_names(regex=name) if one in wanted}
        return wanted.get(name)

    def get(self, trial: Trial | None = None) -> list[Tensor]:
        """Return the wanted tensors of a trial."""
        trial = trial or self._base
        return [trial.tensor(name) for name in self._wanted.get(trial, {})]

    def fetch(self) -> None:
        """See that every one is there; raises `TensorUnavailableForStep`, and the rule skips the step."""
        for trial, wanted in self._wanted.items():
            for name, steps in wanted.items():
                there = trial.tensor(name).steps()
                for step in steps:
                    if step not in there:
                        raise TensorUnavailableForStep(name, step)

    def clear(self) -> None:
        """Want nothing."""
        self._wanted = {}


class Rule(ABC):
    """A rule as smdebug has it: derive from it, and say in `invoke_at_step` what is wrong with a step."""

    as_rule: Any = None
    """The same as a rule of holter's; made with each class."""

    def __init__(
        self, base_trial: Trial, action_str: str = "[]", other_trials: Sequence[Trial] | None = None
    ) -> None:
        """Judge a trial.

        Args:
            base_trial: The trial.
            action_str: Without meaning here: actions are bound to rules by `--action`.
            other_trials: What to compare it with.
        """
        self.base_trial = base_trial
        self.other_trials = list(other_trials or [])
        self.trials = [base_trial, *self.other_trials]
        self.req_tensors = RequiredTensors(base_trial)
        self.rule_name = type(self).__name__
        self.logger = logging.getLogger(f"holter.rules.{self.rule_name}")
        self.report: _Report = {
            "RuleTriggered": 0,
            "Violations": 0,
            "Details": {},
            "Datapoints": 0,
            "RuleParameters": "",
        }
        self._actions: list[Any] = []

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.as_rule = None if inspect.isabstract(cls) else adapted(cls)
        module = sys.modules.get(cls.__module__)
        if cls.as_rule is not None and module is not None:
            # By this name another process finds it again.
            setattr(module, cls.as_rule.__qualname__, cls.as_rule)

    def set_required_tensors(self, step: int) -> None:  # noqa: B027 - who needs nothing leaves it out
        """Say by `self.req_tensors.add` what `invoke_at_step` needs; nothing by default."""

    @abstractmethod
    def invoke_at_step(self, step: int) -> bool:
        """Say whether the condition is met at a global step."""

    def invoke(self, step: int) -> None:
        """Wait for a step and judge it.

        Raises:
            RuleEvaluationConditionMet: The condition is met.
            TensorUnavailableForStep: What it requires is not there, nor will be.
            StepUnavailable: Nothing was saved at the step.
            NoMoreData: The job ended before it.
        """
        for trial in self.trials:
            trial.wait_for_steps([step])
        with no_refresh(self.trials):
            self.req_tensors.clear()
            self.set_required_tensors(step)
            self.req_tensors.fetch()
            met = self.invoke_at_step(step)
        self.report["Datapoints"] += 1
        if met:
            self.report["RuleTriggered"] += 1
            self.report["Violations"] += 1
            raise RuleEvaluationConditionMet(self.rule_name, step)


def invoke_rule(
    rule_obj: Rule, start_step: int = 0, end_step: int | None = None, raise_eval_cond: bool = False
) -> None:
    """Let a rule judge step after step.

    Args:
        rule_obj: The rule.
        start_step: The first step.
        end_step: One after the last; by default until the job has ended.
        raise_eval_cond: Raise when the condition is met, instead of logging it.

    Raises:
        RuleEvaluationConditionMet: The condition is met, and `raise_eval_cond` is true.
        NoMoreData: The job has ended: the usual end where there is no `end_step`.
    """
    step = start_step
    while end_step is None or step < end_step:
        try:
            rule_obj.invoke(step)
        except SKIPPED as missing:
            rule_obj.logger.debug("step %d is skipped: %s", step, missing)
        except RuleEvaluationConditionMet as met:
            if raise_eval_cond:
                raise
            rule_obj.logger.warning("%s", met)
            if met.end_of_rule:
                return
        except NoMoreProfilerData:
            return
        step += 1


__all__ = ["RequiredTensors", "Rule", "invoke_rule"]
