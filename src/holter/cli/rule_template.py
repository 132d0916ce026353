"""`holter rules new NAME`: write a working rule and its test as a template."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from holter.cli import options
from holter.cli.options import Refusal

ABOUT = "Write a file with a working rule as a template, and a test for it."
EXAMPLES = """  holter rules new GradientTooLarge
  holter rules new GradientTooLarge --folder rules"""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")

RULE = '''"""{title}: a rule of this project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holter.rules import Issue, Rule, Window, parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class {name}(Rule):
    """A number that the training logs is too large."""

    reads = ("scalars",)
    category = "training"
    severity = "warning"
    description = "a logged number is larger than it should be"
    formula = "any value of `scalar` above `threshold`"
    advice = "Check what the training did just before that step."

    scalar: str = parameter("grad_norm")
    """Name of the number."""
    threshold: float = parameter(10.0, above=0)
    """Its highest valid value."""

    def evaluate(self, window: Window) -> Iterator[Issue]:
        """Judge the new values; each row is new once."""
        new = window.new("scalars")
        values = new.where(new["name"] == self.scalar)
        if not values.rows:
            window.insufficient("no_input", f"{{self.scalar}} is not logged")
            return
        window.judged(values.rows)
        for row in values.where(values["value"] > self.threshold).to_rows():
            found = f"{{self.scalar}} is {{row['value']:.4g}} at step {{row['step']}}"
            yield self.issue(
                f"{{found}}, more than {{self.threshold:g}}",
                node=row["node"] or None,
                rank=row["rank"],
                step_start=row["step"],
                step_end=row["step"],
                time_start=row["time"],
                time_end=row["time"],
                evidence={{"value": row["value"], "threshold": self.threshold}},
            )
'''

TEST = '''"""{name} finds large values and nothing else."""

from holter.rules import check_rule

from {module} import {name}

SECOND = 1_000_000_000


def grad_norms(*values):
    return [
        {{"time": (i + 1) * SECOND, "rank": 0, "step": i, "name": "grad_norm", "value": value}}
        for i, value in enumerate(values)
    ]


def test_it_finds_a_value_that_is_too_large():
    (issue,) = check_rule({name}(threshold=5), {{"scalars": grad_norms(1.0, 7.0, 1.0, 9.0)}})
    assert issue.count == 2
    assert (issue.step_start, issue.step_end) == (1, 3)


def test_it_finds_nothing_in_good_values():
    assert check_rule({name}(threshold=5), {{"scalars": grad_norms(1.0, 2.0, 5.0)}}) == []


def test_it_finds_the_same_in_rows_that_arrive_in_pieces():
    rows = {{"scalars": grad_norms(1.0, 7.0, 1.0, 9.0)}}
    assert check_rule({name}(threshold=5), rows) == check_rule({name}(threshold=5), rows, pieces=4)
'''


def main(words: list[str]) -> int:
    """Run `holter rules new`."""
    parser = options.Parser("rules new", ABOUT, EXAMPLES)
    parser.add_argument("name", metavar="NAME", help="the name of the rule, as GradientTooLarge")
    parser.add_argument(
        "--folder", metavar="FOLDER", default=".", help="where to write; default: this folder"
    )
    given = parser.read(words)
    name, module = _names(given.name)
    folder = Path(given.folder)
    if not folder.is_dir():
        raise Refusal(f"--folder {given.folder}: no such folder")
    wanted = {
        folder / f"{module}.py": RULE.format(name=name, title=module.replace("_", " ").capitalize()),
        folder / f"test_{module}.py": TEST.format(name=name, module=module),
    }
    for path in wanted:
        if path.exists():
            raise Refusal(f"{path} exists; choose another name or folder")
    try:
        for path, text in wanted.items():
            path.write_text(text)
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror}") from None
    rule, test = wanted
    shown = rule if given.folder != "." else f"./{rule}"
    print(f"wrote {rule} and {test}; test it, then run it:")
    print(f"  python -m pytest {test}")
    print(f"  holter run --rule {shown}:{name}:threshold=5 -- python train.py")
    return 0


def _names(given: str) -> tuple[str, str]:
    """Return the names of the class and of its file; raises `Refusal` for a name that is not valid."""
    if not _NAME.fullmatch(given) or keyword.iskeyword(given):
        raise Refusal(
            f"{given!r} is not a valid rule name; it takes letters, digits and '_', and begins with a letter"
        )
    from holter.rules import BadRule, find

    name = given[0].upper() + given[1:]
    if "_" in given:
        name = "".join(part.capitalize() for part in given.split("_"))
    try:
        taken = find(name).__name__
    except BadRule:
        module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
        return name, module
    raise Refusal(f"rule {taken} exists; choose another name")
