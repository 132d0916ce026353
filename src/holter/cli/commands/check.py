"""`holter check A B`: a gate for continuous integration: did steps get slower?"""

from __future__ import annotations

import os
import re
from typing import Any

from holter.cli import options, output
from holter.cli.commands.compare import compared
from holter.cli.options import Refusal
from holter.views.comparison.changes import step_sentence
from holter.views.wording import milliseconds

ABOUT = "Check that a job's steps are not slower than a baseline's."
EXAMPLES = """  holter check baseline latest
  holter check baseline latest --max-slowdown 3% --mean
exit codes: 0 not slower, 1 slower, 2 wrong usage, 3 it cannot be told; 4 no such job.
On GitHub the result is added to the summary of the step."""

CODES = {"pass": 0, "regression": 1, "inconclusive": 3}
WRONG_USAGE = 2
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def main(words: list[str]) -> int:
    """Run `holter check`; wrong usage is 2, for 1 and 3 mean something here."""
    try:
        return _main(words)
    except Refusal as refusal:
        if refusal.code == Refusal.WRONG_USAGE:
            raise Refusal(str(refusal), WRONG_USAGE) from None
        raise


def _main(words: list[str]) -> int:
    parser = options.Parser("check", ABOUT, EXAMPLES)
    parser.add_argument("baseline", metavar="BASELINE", help="the job to compare with")
    options.add_job(parser)
    options.add_store(parser)
    parser.add_argument(
        "--max-slowdown", metavar="SHARE", default="5%", help="how much slower a step may be; default 5%%"
    )
    parser.add_argument("--mean", action="store_true", help="compare mean step times, not medians")
    options.add_json(parser)
    given = parser.read(words)
    share = _SHARE.fullmatch(given.max_slowdown.strip())
    if not share:
        raise Refusal(f"--max-slowdown {given.max_slowdown!r} is no share; valid: a number and %, as in 5%")
    statistic = "mean" if given.mean else "median"
    document = compared([given.baseline, given.job], given.store, statistic=statistic)
    result = _result(document, float(share[1]))
    _summarize(result)
    if given.json:
        output.write_json(result)
    else:
        options.say(f"{result['result']}: {result['sentence']}")
    return CODES[result["result"]]


def _result(document: dict[str, Any], most_pct: float) -> dict[str, Any]:
    from holter.analysis.jobs.comparison import judge

    change = document["changes"][0]
    step = change["step"]
    told = "inconclusive" if step is None else judge(step["ratio_low"], step["ratio_high"], most_pct / 100)
    sentence = "; ".join([*([] if step is None else [step_sentence(step)]), *change["missing"]])
    return {
        "schema": 1,
        "result": told,
        "baseline": document["baseline"],
        "job": change["job"],
        "max_slowdown_pct": most_pct,
        "step": step,
        "parts": change["parts"],
        "sentence": sentence,
    }


def _summarize(result: dict[str, Any]) -> None:
    """Add the result to the summary page of a GitHub workflow, if this is one."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    mark = {"pass": "✅", "regression": "❌", "inconclusive": "⚠️"}[result["result"]]
    lines = [
        f"### {mark} step time: {result['result']}",
        "",
        f"`{result['job']}` against `{result['baseline']}`, at most {result['max_slowdown_pct']:g} % slower. "
        + result["sentence"],
        "",
    ]
    if result["parts"]:
        lines += ["| part of a step | before | after |", "|---|---:|---:|"]
        lines += [
            f"| {part['part']} | {milliseconds(part['before_ms'])} | {milliseconds(part['after_ms'])} |"
            for part in result["parts"]
        ]
    try:
        with open(path, "a", encoding="utf-8") as summary:
            summary.write("\n".join(lines) + "\n")
    except OSError as error:
        options.warn(f"the summary {path} cannot be written: {error}")
