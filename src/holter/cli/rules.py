"""`holter rules list|show|run`: the catalogue of rules, and judging a job by them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holter.cli import options, output
from holter.cli.options import Refusal, nearest

if TYPE_CHECKING:
    from holter.rules import Rule

ABOUT = "List the rules, show one with its parameters, or judge a finished or running job by some of them."
EXAMPLES = """  holter rules list
  holter rules show LowGPUUtilization
  holter rules run latest
  holter rules run latest LowGPUUtilization:threshold_p95=80 StepOutlier"""


def main(words: list[str]) -> int:
    """Run `holter rules`."""
    actions: dict[str, Callable[[list[str]], int]] = {"list": _list, "show": _show, "run": _run}
    if not words or words[0] in ("-h", "--help"):
        parser = options.Parser("rules", ABOUT, EXAMPLES, usage="holter rules list|show|run ...")
        parser.print_help()
        return 0
    if words[0] not in actions:
        what = "option" if words[0].startswith("-") else "action"
        raise Refusal(f"unknown {what} {words[0]}{nearest(words[0], actions)}; valid: {', '.join(actions)}, --help")
    return actions[words[0]](words[1:])
