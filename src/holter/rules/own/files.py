"""Imports rules from files of the user, `./my_rule.py:MyRule`; errors name the file and the line."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

from holter.parameters import suggestion
from holter.rules.rule import BadRule, Rule, line_of
from holter.schema.metrics import METRICS
from holter.schema.tables import TABLES

if TYPE_CHECKING:
    from types import ModuleType

_REFERENCE = re.compile(
    r"(?P<file>[^:]*(?::[\\/][^:]*)?\.py)(?::(?P<name>[A-Za-z_]\w*)(?![\w=]))?(?::(?P<rest>.*))?"
)


def split_reference(text: str) -> tuple[str, str] | None:
    """Split `FILE.py[:NAME][:k=v,…]` into reference and parameters; None when it names no file."""
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        return None
    name = f":{match['name']}" if match["name"] else ""
    return match["file"] + name, match["rest"] or ""


def located(reference: str) -> tuple[str, str, str]:
    """Return the file of a reference as the user wrote it, its absolute path, and the name of the rule."""
    found = split_reference(reference)
    path, _, name = (found[0] if found else reference).partition(".py:")
    path = path if path.endswith(".py") else f"{path}.py"
    return path, os.path.abspath(os.path.expanduser(path)), name


def load(reference: str) -> type[Rule]:
    """Return the rule that `FILE.py[:NAME]` names.

    Args:
        reference: The file, and the name of the rule if the file holds several.

    Raises:
        BadRule: The file is missing, fails to import, or holds no rule or several; names the file and line.
    """
    path, absolute, name = located(reference)
    module = _imported(absolute, path)
    rules = {
        value.__name__: value
        for key, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Rule)
        and value is not Rule
        and value.__module__ == module.__name__
        and key == value.__qualname__
        and not key.startswith("_")
    }
    if not rules:
        raise BadRule(f"{path} holds no rule; write a class that is derived from holter.rules.Rule")
    if not name and len(rules) > 1:
        raise BadRule(f"{path} holds {len(rules)} rules; name one: {', '.join(f'{path}:{n}' for n in rules)}")
    if name and name not in rules:
        hint = suggestion(name, rules, "did you mean {}? ")
        raise BadRule(f"{path} has no rule {name!r}; {hint}it has: {', '.join(rules)}")
    chosen = rules[name] if name else next(iter(rules.values()))
    _check(chosen, path)
    made: Any = chosen
    made.reference = f"{absolute}:{chosen.__name__}"
    return chosen


def _imported(path: str, shown: str) -> ModuleType:
    """Import a file under a unique name, once in the life of this process."""
    digest = hashlib.sha256(path.encode()).hexdigest()[:12]
    name = f"{os.path.basename(path).removesuffix('.py')}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    if not os.path.isfile(path):
        raise BadRule(f"{shown}: there is no such file")
    try:
        return module_from(path, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # SystemExit too: a file that exits when it is imported is not a rule.
        sys.modules.pop(name, None)
        line = error.lineno if isinstance(error, SyntaxError) else _line(error, path)
        raise BadRule(f"{shown}:{line or 1}: {type(error).__name__}: {error}") from None


def module_from(path: str, name: str) -> ModuleType:
    """Import a Python file under a name."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _line(error: BaseException, path: str) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


def _check(rule: type[Rule], path: str) -> None:
    """Refuse a rule that cannot run."""
    where = f"{path}:{line_of(rule)}: {rule.__name__}"
    if any(isinstance(value, dataclasses.Field) for value in vars(rule).values()):
        raise BadRule(
            f"{where} has parameters but is no dataclass; put @dataclass(frozen=True, kw_only=True) above"
        )
    if not rule.reads:
        raise BadRule(f'{where} reads nothing; write which tables, as in reads = ("scalars",)')
    for text in rule.reads:
        table, _, only = text.partition("/")
        if table not in TABLES:
            hint = suggestion(table, TABLES)
            raise BadRule(f"{where} reads {text!r}; {hint}there are: {', '.join(TABLES)}")
        if table == "samples" and only and only not in METRICS:
            hint = suggestion(only, METRICS, "did you mean 'samples/{}'?") or "see holter.schema.metrics"
            raise BadRule(f"{where} reads {text!r}, but there is no metric {only!r}; {hint}")
