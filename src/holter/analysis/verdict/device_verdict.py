"""The verdict on an imported trace, from the work of its accelerators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holter.analysis.device.startup import without_startup
from holter.analysis.verdict.device_advice import ADVICE, faster
from holter.analysis.verdict.device_facts import LEAST_KERNELS, DeviceFacts, device_facts
from holter.analysis.verdict.device_suspects import HOST_SHARE, TESTS
from holter.analysis.verdict.evidence import Evidence, counted, ms, pct, sentence, us
from holter.analysis.verdict.host_verdict import without_device
from holter.analysis.verdict.result import (
    GPU_BUSY,
    GPU_SATURATED,
    UNEXPLAINED,
    Verdict,
    most_guilty,
    ruled_out,
    summed_share,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table

_TIMED = ("kernels", "memory_operations", "operators", "spans")
ABOUT_STEPS = STEPS_INFERRED, STARTUP = ("steps.inferred", "startup")
"""Metrics of the evidence about steps: they come from no marks, and the first ones are not judged."""
MINOR = 0.5
"""The verdict names another suspect too if it costs at least this fraction of the worst one."""


def verdict(tables: Mapping[str, Table], facts: DeviceFacts | None = None) -> Verdict:
    """Judge a trace.

    Each suspect is tested independently, as for a recorded job, but shares are shares of the accelerator's
    time. Several suspects of similar cost are `mixed`. Without a guilty suspect, a busy accelerator is
    `healthy`, and a saturated one is `model_compute`. Otherwise the verdict is `inconclusive`, and `missing`
    names the data that would decide.

    Args:
        tables: kernels, launches, memory_operations, syncs, operators, and spans with the steps.
        facts: The result of `device_facts`, if it is already computed.
    """
    facts = facts or device_facts(*without_startup(tables))
    found = _judged(tables, facts)
    return replace(found, evidence=[*found.evidence, *_about_steps(facts)])


def _about_steps(facts: DeviceFacts) -> list[Evidence]:
    """Return what a reader of the verdict must know about its steps."""
    found = []
    if facts.inferred:
        text = f"the trace does not mark its steps; {counted(facts.steps, 'step')}"
        if facts.startup:
            text += " after the start-up"
        text += f" {'is' if facts.steps == 1 else 'are'} inferred from {facts.inferred}"
        found.append(Evidence(text, STEPS_INFERRED, facts.steps))
    if first := facts.startup:
        each = "takes" if first.steps == 1 else "take"
        text = (
            f"{first.text} {each} {ms(first.ms)} and a later one takes {ms(first.usual_ms)}, so the verdict "
            "leaves this start-up out"
        )
        found.append(Evidence(text, STARTUP, first.ms))
    return found


def _judged(tables: Mapping[str, Table], facts: DeviceFacts) -> Verdict:
    if momentary(tables):
        return Verdict(
            suspect="inconclusive",
            sentence="All events of the trace have the same time and no duration, so holter cannot say "
            "where the time goes.",
            missing=["durations"],
        )
    if not facts.kernels:
        return without_device(facts)
    if facts.kernels < LEAST_KERNELS:
        return Verdict(
            suspect="inconclusive",
            sentence=f"The trace has only {counted(facts.kernels, 'kernel')}, which is too few for a "
            f"verdict. The accelerator was busy {pct(facts.busy_pct)} of {ms(facts.window_ns / 1e6)}.",
            missing=["a trace of several steps after warm-up"],
        )
    tested = {name: test(facts) for name, test in TESTS.items()}
    guilty = most_guilty(tested)
    excluded = ruled_out(tested)
    if not guilty:
        return _innocent(facts, excluded)
    worst = tested[guilty[0]].share or 0.0
    if facts.breakdown["idle"] >= max(UNEXPLAINED, worst):
        found = _unexplained(facts, [], excluded, _missing(facts))
        more = [item for name in guilty for item in tested[name].evidence]
        return replace(found, also=guilty, evidence=[*found.evidence, *more])
    named = [name for name in guilty if (tested[name].share or 0.0) >= MINOR * worst]
    return Verdict(
        suspect=named[0] if len(named) == 1 else "mixed",
        sentence=" ".join(tested[name].sentence for name in named),
        share_pct=summed_share(tested[name] for name in named),
        also=named if len(named) > 1 else [name for name in guilty if name not in named],
        evidence=[item for name in guilty for item in tested[name].evidence],
        ruled_out=excluded,
        advice=[advice for name in guilty for advice in ADVICE[name](facts)],
        missing=_missing(facts),
    )


def momentary(tables: Mapping[str, Table]) -> bool:
    """Return whether a trace has events that all lie at one moment."""
    seen = [table for name in _TIMED if (table := tables.get(name)) is not None and table.rows]
    if not seen:
        return False
    end = max(int((table["time"] + table["duration"]).max()) for table in seen)
    return end <= min(int(table["time"].min()) for table in seen)


def _innocent(facts: DeviceFacts, excluded: list[dict[str, str]]) -> Verdict:
    parts, busy, kernel = facts.breakdown, facts.busy_pct, facts.median_kernel_us
    one = facts.devices == 1
    said = (
        f"{facts.accelerators} {'is' if one else 'are'} busy {pct(busy)} of the time and "
        f"{'computes' if one else 'compute'} {pct(parts['compute'])} of the time"
    )
    evidence = [
        Evidence(said, "busy", busy, GPU_BUSY),
        Evidence(f"the median kernel takes {us(kernel)}", "kernel.median_us", kernel),
    ]
    missing = _missing(facts)
    lost = sorted(((share, name) for name, share in parts.items() if name != "compute"), reverse=True)
    rest = ", ".join(f"{_WORDS.get(name, name)} {pct(share)}" for share, name in lost[:3] if share >= 1)
    if parts["compute"] >= GPU_SATURATED:
        return Verdict(
            suspect="model_compute",
            sentence=f"The model's compute sets the pace: it takes {pct(parts['compute'])} of the time.",
            share_pct=parts["compute"],
            evidence=evidence,
            ruled_out=excluded,
            advice=faster(facts),
            missing=missing,
        )
    if busy >= GPU_BUSY:
        return Verdict(
            suspect="healthy",
            sentence=f"No bottleneck found: {said}." + (f" The rest is {rest}." if rest else ""),
            evidence=evidence,
            ruled_out=excluded,
            missing=missing,
        )
    if parts["idle"] >= UNEXPLAINED:
        return _unexplained(facts, evidence, excluded, missing)
    return Verdict(
        suspect="inconclusive",
        sentence=f"{sentence(said)} No single reason explains the rest" + (f" ({rest})." if rest else "."),
        evidence=evidence,
        ruled_out=excluded,
        missing=missing or ["Python stacks"],
    )


def _unexplained(
    facts: DeviceFacts, evidence: list[Evidence], excluded: list[dict[str, str]], missing: list[str]
) -> Verdict:
    idle = facts.breakdown["idle"]
    one = facts.devices == 1
    said = (
        f"{facts.accelerators} {'idles' if one else 'idle'} {pct(idle)} of the time although the host has "
        "launched the next work"
    )
    wanted = ["the other ranks' traces", "waits of streams (cuda_sync events)"]
    return Verdict(
        suspect="inconclusive",
        sentence=f"{sentence(said)} The trace does not show the reason, as an event, a copy or another rank.",
        evidence=[Evidence(said, "idle", idle, UNEXPLAINED), *evidence],
        ruled_out=excluded,
        missing=[*wanted, *(item for item in missing if item not in wanted)],
    )


_WORDS = {
    "data_loading": "waiting for batches",
    "checkpoint": "checkpoints",
    "host": "waiting for the host",
    "idle": "kernel start-up and dependencies",
}


def _missing(facts: DeviceFacts) -> list[str]:
    found = []
    if not facts.steps:
        found.append("steps: call profiler.step() in the loop")
    if facts.communication_pct >= 1 and len(facts.ranks) == 1:
        found.append("the other ranks' traces")
    if facts.breakdown["host"] >= HOST_SHARE and not facts.stacks:
        found.append("Python stacks: with_stack=True")
    return found + [f"collectives of all ranks ({why})" for why in facts.unmatched[:1]]
