"""`holter run [options] -- CMD…`: record a training and print a verdict."""

from __future__ import annotations

from holter.cli.run.execution import execute
from holter.cli.run.plan import plan


def main(words: list[str]) -> int:
    """Run `holter run`; returns CMD's own exit code, or 3 when `--fail-on` asks for it."""
    return execute(plan(words))
