"""The verdict on an imported trace, from the work of its accelerators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.device.startup import without_startup
from holter.analysis.verdict.device_advice import ADVICE, faster
from holter.analysis.verdict.device_facts import LEAST_KERNELS, DeviceFacts, device_facts
from holter.analysis.verdict.device_suspects import COMMUNICATION_SHARE, HOST_SHARE, TESTS
from holter.analysis.verdict.evidence import Evidence, counted, ms, pct, sentence, short_name, us
from holter.analysis.verdict.result import (
    GPU_BUSY,
    GPU_SATURATED,
    UNEXPLAINED,
    Advice,
    Verdict,
    most_guilty,
    ruled_out,
    summed_share,
)
from holter.analysis.verdict.what_if_verdict import of_replay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.host.horovod import Horovod
    from holter.schema.table import Table

_TIMED = ("kernels", "memory_operations", "operators", "spans")
ABOUT_STEPS = STEPS_INFERRED, STARTUP = ("steps.inferred", "startup")
"""Metrics of the evidence about steps: they come from no marks, and the first ones are not judged."""
MINOR = 0.5
"""The verdict names another suspect too if it costs at least this fraction of the worst one."""

HOST_LOADING = 30.0
"""Data loading is the verdict if it takes this percentage of the main thread's time."""
MIN_NEGOTIATIONS = 10
"""A verdict on Horovod needs at least this many negotiated tensors."""


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
        return _without_device(facts)
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


def _without_device(facts: DeviceFacts) -> Verdict:
    """Judge a trace without device work."""
    if not facts.host_parts:
        return Verdict(
            suspect="inconclusive",
            sentence="The trace has neither kernels nor operators nor functions of the host.",
            missing=["kernels", "operators"],
        )
    top = [(name, share) for name, share in facts.host_parts.items() if name and share >= 1][:3]
    doing = ", ".join(f"{short_name(name)} {pct(share)}" for name, share in top) or short_name("")
    evidence = [
        Evidence(f"{short_name(name)} takes {pct(share)} of the main thread's time", name, share)
        for name, share in top
    ]
    if facts.loading_pct >= HOST_LOADING:
        text = f"waiting for batches takes {pct(facts.loading_pct)} of the main thread's time"
        return Verdict(
            suspect="data_pipeline",
            sentence=f"Data loading takes {pct(facts.loading_pct)} of the main thread's time.",
            share_pct=facts.loading_pct,
            evidence=[Evidence(text, "data_loading.host", facts.loading_pct, HOST_LOADING), *evidence],
            missing=["kernels"],
        )
    if facts.horovod:
        return _of_horovod(facts.horovod)
    if facts.what_if and (found := of_replay(facts.what_if)):
        return found
    if facts.slow:
        return _slow(facts)
    return Verdict(
        suspect="inconclusive",
        sentence="The trace has no device work. The main thread of the host spends most of its time in "
        f"{doing}.",
        evidence=evidence,
        missing=["kernels: the trace has no device work"],
    )


def _of_horovod(found: Horovod) -> Verdict:
    """Judge a timeline of Horovod by the time of negotiation and of exchange."""
    waiting, moving = found.negotiating_pct, found.moving_pct
    text = f"negotiation takes {pct(waiting)} of the time, and exchange takes {pct(moving)}"
    evidence = [
        Evidence(f"{text} ({found.tensors:,} negotiations)", "communication", waiting, COMMUNICATION_SHARE)
    ]
    missing = ["step times of the other ranks: Horovod's timeline does not name the late rank"]
    if waiting < COMMUNICATION_SHARE or found.tensors < MIN_NEGOTIATIONS:
        return Verdict(
            suspect="inconclusive",
            sentence=f"Horovod waits {pct(waiting)} of the time for tensors of other ranks and exchanges "
            f"tensors {pct(moving)} of the time. Its timeline does not show the rest.",
            evidence=evidence,
            missing=["kernels, or a recording by holter", *missing],
        )
    return Verdict(
        suspect="communication",
        sentence=f"Ranks wait for one another: {pct(waiting)} of the time a tensor is ready on some ranks "
        f"only (NEGOTIATE), and exchange takes {pct(moving)}.",
        share_pct=waiting,
        evidence=evidence,
        missing=missing,
    )


def _slow(facts: DeviceFacts) -> Verdict:
    """Judge a trace of workers by the threads that are slower than others with the same calls."""
    first = facts.slow[0]
    lost = 100.0 * (1 - 1 / first.ratio) * first.share_pct / 100
    count = len(facts.slow)
    ratio = float(np.median([slow.ratio for slow in facts.slow]))
    who, it = f"{first.label} takes", "it has"
    if count > 1:
        who = f"The {count} threads of {first.shared}" if first.shared else f"{count} threads"
        who, it = f"{who} take", "they have"
    check = f"Check whether {it} more work or {'slower machines' if count > 1 else 'a slower machine'}."
    return Verdict(
        suspect="communication",
        sentence=f"{who} {ratio:.2g} times as long as the median of the other {first.others} threads with "
        f"the same calls, mostly in {short_name(first.name)}. Threads that need "
        f"{'their' if count > 1 else 'its'} results wait.",
        share_pct=lost,
        evidence=[
            Evidence(
                f"{slow.label} takes {slow.ratio:.3g} times as long as the median of the other threads for "
                f"the same calls, which are {pct(slow.share_pct)} of its time",
                "thread.ratio",
                slow.ratio,
                1.0,
                slow.label,
            )
            for slow in facts.slow[:5]
        ],
        advice=[Advice(check, None, "the other threads take equally long")],
        missing=["kernels"],
    )
