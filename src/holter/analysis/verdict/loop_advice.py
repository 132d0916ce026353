"""Advice on what runs in the loop beside the model and its data: own code, checkpoints and evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.steps.own_code import DEVICE
from holter.analysis.verdict.evidence import pct
from holter.analysis.verdict.loop_suspects import calls, evaluation_starts
from holter.analysis.verdict.result import SMALLER, UNEXPLAINED, Advice
from holter.schema.phases import NNX_JIT

if TYPE_CHECKING:
    from holter.analysis.steps.holders import Holder
    from holter.analysis.verdict.job_facts import VerdictFacts

_TREES = ("xgboost", "lightgbm", "catboost")
"""Frameworks that grow trees."""
_WAITS = {"subprocess": "start of a process", "fsync": "write to disk"}
"""What a function waits in → its name in advice; others are an access."""
_OF_NNX = "flax/nnx/"
"""Where the files of nnx lie; a user does not change them."""
FEWER_EVALUATIONS = "Evaluate less often, on fewer batches, or with larger batches."
_FEWER_TREE_EVALUATIONS = (
    "Evaluate less: leave the training data out of the evaluation sets, use a sample of the validation data, "
    "or compute fewer metrics."
)


def own_code(facts: VerdictFacts) -> list[Advice]:
    """Advise on the functions of the training that take the time."""
    found = [_apart(facts, one) for one in facts.holders[:1] if one.pct >= SMALLER]
    if facts.held_pct >= UNEXPLAINED:
        return found
    compiling = _nnx_jit(facts)
    found += compiling
    named = [one for one in facts.own_code if not one.iterates and one.waits_in != DEVICE]
    if compiling:
        named = [one for one in named if _OF_NNX not in one.place]
    for one in named[:2]:
        share = one.pct
        text = f"Shorten {one.place}, or call it less often."
        if one.holds_loop:
            text = f"Shorten {one.text}, or do it in fewer steps."
        if one.waits_in == "garbage collection":
            share = max(share, facts.collecting_pct)  # spans are exact, samples are not
            text = f"Do not collect garbage in every step: {one.place}."
        elif one.waits_in in ("sleep", "lock", "queue", "input"):
            text = f"Remove the wait in {one.place}, or find out what it waits for."
        elif one.waits_in:
            what = _WAITS.get(one.waits_in, f"{one.waits_in} access")
            text = f"Move the {what} in {one.place} out of the loop, or into a thread."
        found.append(removed(facts, share, text))
    if found:
        return found
    if facts.python is None:
        return [
            removed(facts, one.pct, f"Shorten {one.name}, or call it less often.") for one in calls(facts)[:2]
        ]
    for name, share in facts.python.functions[:2]:
        expected = facts.without(facts.share("other") * share / 100)
        why = f"it takes {pct(share)} of the loop's own code in {facts.python.steps}"
        found.append(Advice(f"Shorten {name}, or call it less often.", expected, why))
    return found


def _nnx_jit(facts: VerdictFacts) -> list[Advice]:
    """Advise on functions of Flax that take their model apart in each call."""
    around = [one for one in facts.named_work if one.name.startswith(NNX_JIT) and one.pct >= SMALLER]
    return [
        removed(
            facts,
            one.pct,
            f"Take the model apart once with nnx.split, and compile {one.name.removeprefix(NNX_JIT)} "
            "with jax.jit: nnx.jit takes it apart in each call.",
        )
        for one in around[:1]
    ]


def removed(facts: VerdictFacts, share: float, text: str) -> Advice:
    """Return advice that removes work, which takes a percentage of the loop."""
    return Advice(text, facts.without(share), f"it takes {pct(share)} of the loop's time")


def _apart(facts: VerdictFacts, one: Holder) -> Advice:
    """Advise on a thread that holds the interpreter."""
    text = f"Run {one.place} in a process of its own, less often, or in code that releases the interpreter."
    why = f"the training thread waits {pct(one.pct)} of the loop's time for the Python code of {one.thread}"
    return Advice(text, facts.without(one.pct), why)


def unnamed_code(facts: VerdictFacts) -> list[Advice]:
    """Advise on time that no samples explain: profile this job, or the next one if this one has ended."""
    text = "See which functions take the time: `holter profile JOB --python cprofile` while the job runs."
    if facts.python is not None:
        # A second profile of the same steps shows nothing new.
        steps = facts.python.largest_steps
        listed = " ".join(f"--profile-steps {step}:{step + 1}:cprofile" for step in steps)
        why = f"{facts.python.steps} have a profile, but little of that time"
        return [Advice(f"Profile the steps that take the time: run it again with `{listed}`.", None, why)]
    if not facts.running:
        first = facts.window["step_start"] if facts.window else 10
        text = (
            "See which functions take the time: run it again with `--profile-steps "
            f"{first}:{first + 3}:cprofile`."
        )
    return [Advice(text, None, "no stack sample names the loop's own code")]


def checkpointing(facts: VerdictFacts) -> list[Advice]:
    """Advise on checkpoints that delay the training."""
    around = facts.around_checkpoints
    share = facts.share("checkpoint") + sum(one.pct for one in around)
    expected = facts.without(share)
    why = f"they take {pct(share)} of the loop's time; the expected step time is a mean"
    advice = [Advice("Write checkpoints in the background, or less often.", expected, why)]
    for one in around[:1]:
        text = f"Shorten {one.place}, which runs with each checkpoint."
        advice.append(removed(facts, one.pct, text))
    return advice


def evaluation(facts: VerdictFacts) -> list[Advice]:
    """Advise on evaluations that take a large part of the loop."""
    text = _FEWER_TREE_EVALUATIONS if facts.framework in _TREES else FEWER_EVALUATIONS
    why = f"evaluation takes {pct(facts.share('eval'))} of the loop's time; the expected step has none"
    advice = [Advice(text, facts.mean_step_ms, why)]
    if starts := evaluation_starts(facts):
        kept = "Keep the workers of the evaluation's loader: make it once, with persistent_workers=True."
        expected = facts.whole_step_ms * (1 - starts / 100)
        advice.append(Advice(kept, expected, f"starting them takes {pct(starts)} of the loop's time"))
    return advice


def eager(facts: VerdictFacts) -> list[Advice]:
    """Advise on steps of TensorFlow that run eagerly: a gradient outside of functions has time of its own."""
    if facts.framework != "tensorflow" or not facts.breakdown.get("backward"):
        return []
    why = "the steps run eagerly, so that Python starts each operation; how much it takes was not measured"
    return [Advice("Decorate the function that trains on a batch with @tf.function.", None, why)]
