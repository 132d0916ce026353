"""The verdict on a trace that holter did not record: the suspects of a job, told from kernels alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holter.analysis.verdict.candidates import GPU_BUSY, GPU_SATURATED
from holter.analysis.verdict.device_advice import ADVICE, faster
from holter.analysis.verdict.device_candidates import HOST_SHARE, TESTS, seen, who
from holter.analysis.verdict.device_facts import DeviceFacts, device_facts
from holter.analysis.verdict.evidence import counted, ms, pct, us
from holter.analysis.verdict.host_verdict import without_device
from holter.analysis.verdict.suspects import UNEXPLAINED, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.analysis.verdict.evidence import Evidence
    from holter.schema.table import Table

LEAST_KERNELS = 50
"""Fewer kernels are no ground for a verdict."""
_TIMED = ("kernels", "memory_operations", "operators", "spans")
MINOR = 0.5
"""A second suspect is told with the first if it costs at least this part of what that costs."""


def verdict(tables: Mapping[str, Table], facts: DeviceFacts | None = None) -> Verdict:
    """Judge a trace.

    Each suspect is tested on its own, as for a recorded job, but in the accelerator's time: a share is what
    the accelerator lost to it. Several that cost alike are `mixed`. When none qualifies, a busy accelerator
    is `healthy`, or `model_compute` when it is saturated; else the verdict is `inconclusive`, and `missing`
    says what would tell.

    Args:
        tables: kernels, launches, memory_operations, syncs, operators, and spans with the steps.
        facts: What `device_facts` says of them, if that is known already.
    """
    facts = facts or device_facts(tables)
    if momentary(tables):
        return Verdict(
            suspect="inconclusive",
            sentence="All events of the trace lie at one moment and none has a duration: "
            "where the time goes cannot be told.",
            missing=["durations"],
        )
    if not facts.kernels:
        return without_device(facts)
    if facts.kernels < LEAST_KERNELS:
        return Verdict(
            suspect="inconclusive",
            sentence=f"Only {counted(facts.kernels, 'kernel')} ran, and the accelerator was busy "
            f"{pct(facts.busy_pct)} of {ms(facts.window_ns / 1e6)}: too few to say what holds it back.",
            missing=["a trace of several steps after warm-up"],
        )
    tested = {name: test(facts) for name, test in TESTS.items()}
    guilty = sorted(
        (name for name, found in tested.items() if found.guilty),
        key=lambda name: -(tested[name].share or 0.0),
    )
    ruled_out = [
        {"suspect": name, "because": found.because}
        for name, found in tested.items()
        if not found.guilty and found.because
    ]
    if not guilty:
        return _innocent(facts, ruled_out)
    worst = tested[guilty[0]].share or 0.0
    if facts.breakdown["idle"] >= max(UNEXPLAINED, worst):
        found = _unexplained(facts, [], ruled_out, _missing(facts))
        more = [item for name in guilty for item in tested[name].evidence]
        return replace(found, also=guilty, evidence=[*found.evidence, *more])
    told = [name for name in guilty if (tested[name].share or 0.0) >= MINOR * worst]
    shares = [share for name in told if (share := tested[name].share) is not None]
    return Verdict(
        suspect=told[0] if len(told) == 1 else "mixed",
        sentence=" ".join(tested[name].sentence for name in told),
        share_pct=min(sum(shares), 100.0),
        also=told if len(told) > 1 else [name for name in guilty if name not in told],
        evidence=[item for name in guilty for item in tested[name].evidence],
        ruled_out=ruled_out,
        advice=[advice for name in guilty for advice in ADVICE[name](facts)],
        missing=_missing(facts),
    )


def momentary(tables: Mapping[str, Table]) -> bool:
    """Tell whether a trace has events, but no time passes from the first begin to the last end."""
    seen = [table for name in _TIMED if (table := tables.get(name)) is not None and table.rows]
    if not seen:
        return False
    end = max(int((table["time"] + table["duration"]).max()) for table in seen)
    return end <= min(int(table["time"].min()) for table in seen)


def _innocent(facts: DeviceFacts, ruled_out: list[dict[str, str]]) -> Verdict:
    parts, busy = facts.breakdown, facts.busy_pct
    said = f"busy {pct(busy)} of the time, {pct(parts['compute'])} of it computing"
    evidence = [
        seen(f"the accelerator is {said}", "busy", busy, GPU_BUSY),
        seen(
            f"the median kernel takes {us(facts.median_kernel_us)}",
            "kernel.median_us",
            facts.median_kernel_us,
        ),
    ]
    missing = _missing(facts)
    if parts["compute"] >= GPU_SATURATED:
        return Verdict(
            suspect="model_compute",
            sentence=f"The model itself sets the pace: {pct(parts['compute'])} of the time is compute.",
            share_pct=parts["compute"],
            evidence=evidence,
            ruled_out=ruled_out,
            advice=faster(facts),
            missing=missing,
        )
    if busy >= GPU_BUSY:
        lost = sorted(((share, name) for name, share in parts.items() if name != "compute"), reverse=True)
        rest = ", ".join(f"{_WORDS.get(name, name)} {pct(share)}" for share, name in lost[:3] if share >= 1)
        return Verdict(
            suspect="healthy",
            sentence=f"Nothing in particular holds {who(facts)} back: {said}"
            + (f"; the rest is {rest}." if rest else "."),
            evidence=evidence,
            ruled_out=ruled_out,
            missing=missing,
        )
    if parts["idle"] >= UNEXPLAINED:
        return _unexplained(facts, evidence, ruled_out, missing)
    lost = sorted(((share, name) for name, share in parts.items() if name != "compute"), reverse=True)
    rest = ", ".join(f"{_WORDS.get(name, name)} {pct(share)}" for share, name in lost[:3] if share >= 1)
    are = "is" if facts.devices == 1 else "are"
    return Verdict(
        suspect="inconclusive",
        sentence=f"{who(facts).capitalize()} {are} {said}; no single reason explains the rest"
        + (f" ({rest})." if rest else "."),
        evidence=evidence,
        ruled_out=ruled_out,
        missing=missing or ["Python stacks"],
    )


def _unexplained(
    facts: DeviceFacts, evidence: list[Evidence], ruled_out: list[dict[str, str]], missing: list[str]
) -> Verdict:
    idle = facts.breakdown["idle"]
    text = f"it idles {pct(idle)} of the time with its next work asked for"
    wanted = ["the other ranks' traces", "waits of streams (cuda_sync events)"]
    waiting = f"{who(facts)} wait{'s' if facts.devices == 1 else ''}"
    return Verdict(
        suspect="inconclusive",
        sentence=f"Idle {pct(idle)} of the time although the next work has been asked for: "
        f"{waiting} for what the trace does not show, as an event, a copy or another rank.",
        evidence=[seen(text, "idle", idle, UNEXPLAINED), *evidence],
        ruled_out=ruled_out,
        missing=[*wanted, *(item for item in missing if item not in wanted)],
    )


_WORDS = {
    "communication": "communication",
    "copies": "copies",
    "data_loading": "waiting for batches",
    "checkpoint": "checkpoints",
    "allocation": "allocation",
    "host": "waiting for the host",
    "idle": "starts of kernels and dependencies",
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
