"""Print the reference page of all rules: `python -m holter.rules > docs/reference/rules.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.rules import catalogue

if TYPE_CHECKING:
    from holter.rules import Rule


def page() -> str:
    """Write the reference page, in Markdown; rules of other installed packages are left out."""
    own = [rule for rule in catalogue().values() if rule.__module__.startswith("holter.rules.")]
    lines = [
        "# Rules",
        "",
        "Written by `python -m holter.rules`; a test compares this page with the code.",
        "",
        "`holter run` starts with the rules of the pack `default`. Set a parameter with "
        "`--rule NAME:parameter=value`; judge a finished job again with "
        "`holter rules run JOB NAME:parameter=value`.",
        "",
        "| rule | finds | category | usual severity | in `default` |",
        "|---|---|---|---|---|",
    ]
    lines += map(_row, own)
    for rule in own:
        lines += ["", *_section(rule)]
    return "\n".join(lines) + "\n"


def _row(rule: type[Rule]) -> str:
    link = f"[{rule.__name__}](#{rule.__name__.lower()})"
    cells = (link, rule.description, rule.category(), rule.severity, "yes" if "default" in rule.packs else "")
    return f"| {' | '.join(cells)} |"


def _section(rule: type[Rule]) -> list[str]:
    lines = [f"## {rule.__name__}", "", rule.description]
    if rule.formula:
        lines += ["", f"Fires when: {rule.formula}"]
    if rule.advice:
        lines += ["", f"Advice: {rule.advice}"]
    lines += ["", f"Reads: {', '.join(f'`{table}`' for table in rule.reads)}."]
    if rule.also_called:
        lines += ["", f"Also called: {', '.join(rule.also_called)}."]
    given = rule.parameters()
    if given:
        lines += ["", "| parameter | modern | classic | takes | meaning |", "|---|---|---|---|---|"]
        for p in given:
            defaults = f"{_default(p.modern, p.unit)} | {_default(p.classic, p.unit)}"
            lines.append(f"| `{p.name}` | {defaults} | {p.valid} | {p.meaning} |")
    return lines


def _default(value: object, unit: str) -> str:
    if isinstance(value, str | list):  # patterns contain characters that mean something in Markdown
        text = value if isinstance(value, str) else ", ".join(map(str, value))
        return "`{}`".format(text.replace("|", "\\|")) if text else "none"
    return "none" if value is None else f"{value} {unit}".rstrip()


if __name__ == "__main__":
    print(page(), end="")
