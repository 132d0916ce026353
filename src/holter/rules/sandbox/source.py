"""Where a rule comes from and its parameters, so that another process can make the same rule."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.rules.own import files

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class RuleSource:
    """A rule as plain data."""

    values: dict[str, Any]
    reference: str
    """`FILE.py:NAME` for a rule from a file of the user; otherwise empty."""
    module: str
    name: str
    file: str | None
    """The file of the module, for a module that cannot be imported by its name."""

    @classmethod
    def of(cls, rule: Rule, reference: str = "") -> RuleSource:
        """Describe a rule."""
        made = type(rule)
        file = getattr(sys.modules.get(made.__module__), "__file__", None)
        reference = reference or getattr(made, "reference", "")
        return cls(rule.values(), reference, made.__module__, made.__qualname__, file)

    def made(self, load: Callable[[str], type[Rule]] = files.load) -> Rule:
        """Make the rule; `load` returns the class of a rule in a file."""
        if self.reference:
            return load(self.reference)(**self.values)
        module = sys.modules.get(self.module)
        if module is None:
            try:
                module = importlib.import_module(self.module)
            except ImportError:
                module = None
            if self.file is not None and getattr(module, "__file__", None) != self.file:
                module = files.module_from(self.file, self.module)
        found: Rule = getattr(module, self.name)(**self.values)
        return found
