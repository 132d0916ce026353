"""Choose rules as a user names them: by name with parameters, by pack, by file, by expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.cli.options import Refusing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holter.evaluation.selection import Choice
    from holter.store.documents import Document


def select(
    given: Iterable[str], sections: Mapping[str, Mapping[str, object]], *, defaults: bool
) -> list[Document]:
    """Return the rules of a job, each with its name and all parameters, checked.

    Args:
        given: What stands after `--rule`: `NAME`, `NAME:k=v,k=v` or `pack:NAME`. A rule that is named twice
            runs twice, the second time as `NAME-2`.
        sections: Sections `[rules.NAME]` of the configuration file; parameters in `given` win. A section
            with `when = "…"` makes a rule of an expression; it also takes `severity` and `advice`.
        defaults: Whether the default rules are included.

    Raises:
        Refusal: An unknown rule or parameter, or a value out of range.
    """
    given = list(given)
    if not (given or sections or defaults):
        return []
    from holter.evaluation import choose, documents
    from holter.evaluation.selection import PACK, split
    from holter.rules import BadRule

    choices: list[Choice] = [f"{PACK}default"] if defaults else []
    with Refusing(BadRule):
        fixed = {
            full_name(name): dict(parameters)
            for name, parameters in sections.items()
            if "when" not in parameters
        }
        used = set()
        for text in given:
            if text.startswith(PACK):
                choices.append(text)
                continue
            name, parameters = split(text)
            full = full_name(name)
            used.add(full)
            choices.append({"name": full, "parameters": {**fixed.get(full, {}), **parameters}})
        choices += [{"name": full, "parameters": fixed[full]} for full in fixed if full not in used]
        for name, each in sections.items():
            if "when" in each:
                more = {key: value for key, value in each.items() if key != "when"}
                choices.append({"name": name, "rule": f"when:{each['when']}", "parameters": more})
        return documents(choose(choices))


def full_name(name: str) -> str:
    """Return the full name of a rule, however it is spelled; raises `Refusal` that names the nearest."""
    from holter.rules import BadRule, find

    with Refusing(BadRule):
        return find(name).__name__
