"""`holter check A B`: fail continuous integration when training steps got slower."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from holter.cli import options, output
from holter.cli.job_lookup import perturbed_job, readable_job
from holter.cli.options import Refusal, Refusing
from holter.views.comparison.changes import step_sentence
from holter.views.wording import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.trial import Trial

ABOUT = "Check in continuous integration that the steps of a job are not slower than those of a baseline."
EXAMPLES = """  holter check baseline latest
  holter check baseline latest --max-slowdown 3% --mean
  holter check original port --tensors
exit codes: 0 not slower, 1 slower, 2 wrong usage, 3 inconclusive, 4 no such job,
6 disturbed, cannot be judged: other programs, a CPU quota, heat or a lower clock slowed a job,
or its conditions are unknown. With --tensors: 0 equal within round-off, 1 different, 3 inconclusive,
also if a part of the tensors cannot be read.
In a GitHub workflow the result is also added to the summary of the step."""

CODES = {"pass": 0, "regression": 1, "difference": 1, "inconclusive": 3, "disturbed": 6}
_MARKS = {"pass": "✅", "regression": "❌", "difference": "❌", "inconclusive": "⚠️", "disturbed": "⚠️"}
_OF_TENSORS = {"identical": "pass", "round_off": "pass", "different": "difference"}
_CONDITIONS: tuple[tuple[str, Literal["cpu_ms", "waited_pct"], Callable[[float | None], str]], ...] = (
    ("CPU time for a step", "cpu_ms", milliseconds),
    ("wait for a core", "waited_pct", percent),
)
EXIT_CODES = {Refusal.WRONG_USAGE: 2}
"""Wrong usage is 2, because 1 and 3 are results."""


def main(words: list[str]) -> int:
    """Run `holter check`."""
    parser = options.Parser("check", ABOUT, EXAMPLES)
    parser.add_argument("baseline", metavar="BASELINE", help="the job to compare with")
    parser.add_shared("job", "--store", "--mean", "--json")
    parser.add_argument(
        "--max-slowdown", metavar="SHARE", default="5%", help="how much slower a step may be; default: 5%%"
    )
    parser.add_argument(
        "--tensors", action="store_true", help="judge the numbers that the jobs computed, not step times"
    )
    parser.add_shared("--perturbed")
    given = parser.read(words)
    most_pct = options.quantity(given.max_slowdown, {"%": 1})
    if most_pct is None:
        raise Refusal(
            f"--max-slowdown {given.max_slowdown!r} is not a percentage; valid: a number and %, as in 5%"
        )
    from holter.analysis.jobs.comparison import judge
    from holter.views.comparison.disturbed import NOT_COMPARABLE, between
    from holter.views.comparison.document import compare

    perturbed = perturbed_job(given)
    trials = [readable_job(name, given.store) for name in (given.baseline, given.job)]
    if given.tensors:
        return _check_tensors(trials, perturbed, as_json=given.json)
    with Refusing(ValueError):
        document = compare(trials, statistic="mean" if given.mean else "median")
    change = document["changes"][0]
    step, job, baseline = change["step"], change["job"], document["baseline"]
    before, after = (one["conditions"] for one in document["jobs"])
    result: str = "inconclusive"
    if step is not None:
        interval, most = (step["ratio_low"], step["ratio_high"]), most_pct / 100
        slowed = between(before, after)
        result = slowed.judge(*interval, most) if slowed else judge(*interval, most)
    disturbed = change["disturbance"]
    told = [] if step is None else [step_sentence(step, result != "disturbed")]
    sentence = "; ".join([*told, *change["missing"]])
    if disturbed:
        stands = f"; {NOT_COMPARABLE}: record again on a quiet machine" if result == "disturbed" else ""
        sentence = f"{disturbed['sentence']}{stands}. {sentence}"
    rows = [
        f"| {part['part']} | {milliseconds(part['before_ms'])} | {milliseconds(part['after_ms'])} |"
        for part in change["parts"]
    ]
    for name, key, tell in _CONDITIONS:
        rows.append(f"| {name} | {tell(before[key])} | {tell(after[key])} |")
    limit = f"`{job}` against `{baseline}`, at most {most_pct:g} % slower."
    _summarize(f"### {_MARKS[result]} step time: {result}", f"{limit} {sentence}", rows)
    if given.json:
        of = {"baseline": baseline, "job": job, "max_slowdown_pct": most_pct}
        found = {"step": step, "parts": change["parts"], "sentence": sentence}
        more = {"disturbance": disturbed, "conditions": {"before": before, "after": after}}
        output.write_json({"schema": 1, "result": result, **of, **found, **more})
    else:
        output.say(f"{result}: {sentence}")
    return CODES[result]


def _check_tensors(trials: list[Trial], perturbed: Trial | None, *, as_json: bool) -> int:
    """Judge the tensors of a job."""
    from holter.views.comparison.tensor_lines import tensor_lines
    from holter.views.comparison.tensors import tensor_changes

    (change,) = tensor_changes(trials, perturbed)
    result, sentence = _OF_TENSORS.get(change["result"], "inconclusive"), " ".join(tensor_lines(change))
    if result == "pass" and change["unread"]:
        result = "inconclusive"
    _summarize(f"### {_MARKS[result]} tensors: {result}", f"`{change['job']}`: {sentence}", [])
    if as_json:
        of = {"baseline": change["baseline"], "job": change["job"]}
        output.write_json({"schema": 1, "result": result, **of, "tensors": change, "sentence": sentence})
    else:
        output.say(f"{result}: {sentence}")
    return CODES[result]


def _summarize(title: str, text: str, rows: list[str]) -> None:
    """Add the result to the summary page, if this is a GitHub workflow."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    table = ["| part of a step | before | after |", "|---|---:|---:|", *rows] if rows else []
    try:
        with open(path, "a", encoding="utf-8") as summary:
            summary.write("\n".join([title, "", text, "", *table]) + "\n")
    except OSError as error:
        output.warn(f"the summary {path} cannot be written: {error}")
