"""`[rules.NAME]` with `when = "…"`: a rule that the configuration file makes of an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def expressions(
    sections: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, Mapping[str, Any]], list[dict[str, Any]]]:
    """Part the sections of rules that there are from those that make one; returns both.

    A section that makes one is called as it likes; beside `when` it takes `severity` and `advice`.
    """
    known: dict[str, Mapping[str, Any]] = {}
    made: list[dict[str, Any]] = []
    for name, given in sections.items():
        if "when" not in given:
            known[name] = given
            continue
        rest = {key: value for key, value in given.items() if key != "when"}
        made.append({"name": name, "rule": f"when:{given['when']}", "parameters": rest})
    return known, made
