"""`holter.rules.rule_configs`: a factory for each rule, under both spellings of its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from holter.rules import catalogue, find

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.rules import Rule


class RuleConfigs:
    """Gives `rule_configs.low_gpu_utilization(threshold="70")` and `rule_configs.LowGPUUtilization(...)`.

    Both make the same rule. Parameters may be strings, and go by any of their names; `defaults="classic"`
    chooses the profile of those that are not given.
    """

    def __getattr__(self, name: str) -> Callable[..., Rule]:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            rule = find(name)
        except ValueError as error:
            raise AttributeError(str(error)) from None

        def make(*, defaults: str = "modern", **parameters: Any) -> Rule:
            return rule.of(parameters, defaults=defaults)

        make.__name__ = name
        make.__doc__ = f"Make the rule {rule.__name__}: {rule.description}."
        return make

    def __dir__(self) -> list[str]:
        return sorted({spelling for name in catalogue() for spelling in (name, snake(name))})


def snake(name: str) -> str:
    """Return a rule's name with underscores, as in `low_gpu_utilization`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
