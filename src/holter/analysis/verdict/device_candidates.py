"""The suspects of a trace of accelerators, each with its test: guilty with a sentence, or not and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holter.analysis.verdict.candidates import Candidate
from holter.analysis.verdict.device_facts import ALLOCATING, LOADING
from holter.analysis.verdict.evidence import Evidence, ms, pct, us

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.verdict.device_facts import DeviceFacts

LOADING_SHARE = 10.0
"""An accelerator that idles so long of its time while batches are waited for is worth a verdict."""
COPIES_SHARE = 10.0
COMMUNICATION_SHARE = 15.0
ALLOCATION_SHARE = 10.0
MANY_ALLOCATIONS = 100
"""A caching allocator asks for memory some dozens of times, then no more."""
CHECKPOINT_SHARE = 10.0
HOST_SHARE = 20.0
"""Idle for so long because the host had not asked for work, without any of the reasons above."""

_PYTHON = re.compile(r"^(?:.*/)?([^/]+\.py)\((\d+)\): (.+)$")


def short(name: str) -> str:
    """Write what the host did for people: `normalize (image_transforms.py:390)`, `aten::copy_`."""
    if not name:
        return "code that the trace does not name"
    found = _PYTHON.match(name)
    if found:
        name = f"{found[3]} ({found[1]}:{found[2]})"
    name = re.sub(r"^<built-in (function|method) (\S+?)( of .*)?>$", r"\2", name)
    return name if len(name) <= 60 else f"{name[:59]}…"


def seen(
    text: str, metric: str, value: float, threshold: float | None = None, where: str | None = None
) -> Evidence:
    """Make evidence from a trace."""
    return Evidence(text, metric, value, threshold, where, None)


def who(facts: DeviceFacts) -> str:
    """Name the accelerators that are judged."""
    return "the accelerator" if facts.devices == 1 else f"the {facts.devices} accelerators"


def _data_pipeline(facts: DeviceFacts) -> Candidate:
    waited, h2d = facts.breakdown["data_loading"], facts.h2d_pct
    if waited < LOADING_SHARE and h2d < COPIES_SHARE:
        said = f"the accelerator idles {pct(waited)} of the time while batches are waited for"
        return Candidate(because=said if facts.loading_pct > 0 or facts.steps else "")
    if waited >= h2d:
        of = f" of each step ({ms(facts.step_ms)})" if facts.step_ms and facts.steps > 1 else " of the time"
        inside = [
            (name, share) for name, share in facts.blamed["data_loading"] if name and not LOADING.search(name)
        ]
        most = (
            f", most of it in {short(inside[0][0])}" if facts.stacks and inside and inside[0][1] >= 25 else ""
        )
        sentence = (
            f"Data loading holds {who(facts)} up: "
            f"idle {pct(waited)}{of} while the next batch is waited for{most}."
        )
        text = f"the accelerator idles {pct(waited)} of the time while a DataLoader is waited for"
        evidence = [seen(text, "data_loading", waited, LOADING_SHARE)]
        if facts.loading_pct > waited + 1:
            whole = (
                f"waiting for batches takes {pct(facts.loading_pct)} of the host's time; the rest of it hides"
            )
            evidence.append(seen(whole, "data_loading.host", facts.loading_pct))
        return Candidate(guilty=True, sentence=sentence, share=waited, evidence=evidence)
    text = f"copies from the host take {pct(h2d)} of the time while nothing computes"
    return Candidate(
        guilty=True,
        sentence=f"Copying input to {who(facts)} takes {pct(h2d)} of the time; nothing computes meanwhile.",
        share=h2d,
        evidence=[seen(text, "h2d", h2d, COPIES_SHARE)],
    )


def _communication(facts: DeviceFacts) -> Candidate:
    exposed = facts.breakdown["communication"]
    if facts.late:
        late = facts.late[0]
        why = "on its host: its accelerator has no more to do than theirs"
        if late.cause == "device":
            why = f"on its accelerator, which computes {ms(late.extra_busy_ns / 1e6)} longer than theirs"
        text = (
            f"rank {late.rank} comes later than the median rank to {late.later} of {late.collectives} "
            f"collectives, last to {late.last}, {ms(late.lateness_ns / 1e6)} in all"
        )
        return Candidate(
            guilty=True,
            sentence=f"Rank {late.rank} holds the others up: late at {late.later} of {late.collectives} "
            f"collectives, {ms(late.lateness_ns / 1e6)} of {ms(facts.window_ns / 1e6)}, {why}.",
            share=max(late.cost_pct, exposed),
            evidence=[
                seen(text, "communication.late", late.cost_pct, None, f"rank {late.rank}"),
                seen(
                    f"communication that nothing hides takes {pct(exposed)} of the time",
                    "communication",
                    exposed,
                ),
            ],
        )
    if not facts.communication_pct:
        return Candidate(because="the trace holds no communication")
    if exposed < COMMUNICATION_SHARE:
        hidden = facts.communication_pct - exposed
        return Candidate(
            because=f"communication that nothing hides takes {pct(exposed)} of the time, "
            f"{pct(hidden)} more is hidden"
        )
    whole = pct(facts.communication_pct)
    text = f"communication takes {whole} of the time, {pct(exposed)} while nothing computes"
    alone = len(facts.ranks) == 1
    unknown = "; whether that is moving data or waiting for another rank, this one rank's trace cannot tell"
    return Candidate(
        guilty=True,
        sentence=f"Communication that nothing hides takes {pct(exposed)} of the time"
        f"{unknown if alone else ''}.",
        share=exposed,
        evidence=[seen(text, "communication", exposed, COMMUNICATION_SHARE)],
    )


def _framework_overhead(facts: DeviceFacts) -> Candidate:
    waited = facts.breakdown["host"]
    if waited < HOST_SHARE:
        return Candidate(
            because=f"the accelerator waits {pct(waited)} of the time for the host to ask for work"
        )
    rate = facts.kernels / max(facts.devices, 1) / max(facts.window_ns / 1e9, 1e-9)
    text = f"the accelerator idles {pct(waited)} of the time because the host has not asked for its next work"
    small = f"the median kernel takes {us(facts.median_kernel_us)}; {rate:,.0f} kernels a second are launched"
    evidence = [
        seen(text, "host", waited, HOST_SHARE),
        seen(small, "kernel.median_us", facts.median_kernel_us),
    ]
    synced = facts.after_sync_pct >= waited / 2
    if synced:
        said = f"{pct(facts.after_sync_pct)} of the time it idles after the host waited for it to finish"
        evidence.append(seen(said, "sync", facts.after_sync_pct))
    doing = [f"{short(name)} {pct(share)}" for name, share in facts.blamed["host"][:3] if share >= 1]
    if doing:
        evidence.append(
            seen(f"meanwhile the host is in: {', '.join(doing)}", "host.blamed", facts.blamed["host"][0][1])
        )
    if facts.stacks:
        said = "the trace records Python functions, which slows the host itself: without them it idles less"
        evidence.append(seen(said, "stacks", 1.0))
    why = "the host waits for its results before it goes on; " if synced else ""
    return Candidate(
        guilty=True,
        sentence=f"The host cannot keep {who(facts)} busy: idle {pct(waited)} of the time before the next "
        f"work is asked for ({why}median kernel {us(facts.median_kernel_us)}).",
        share=waited,
        evidence=evidence,
    )


def _memory_pressure(facts: DeviceFacts) -> Candidate:
    share = facts.breakdown["allocation"]
    if share < ALLOCATION_SHARE:
        return Candidate()
    names = [name for name, part in facts.blamed["allocation"] if ALLOCATING.search(name) and part >= 5]
    called = " and ".join(names[:2]) or "allocating memory"
    text = f"the accelerator idles {pct(share)} of the time while the host is in {called}"
    why = "That is a start without warm-up, or so little memory that the cache is given back."
    if facts.allocations >= MANY_ALLOCATIONS:
        why = f"{facts.allocations:,} such calls: freed memory is not kept, or there is too little of it."
    return Candidate(
        guilty=True,
        sentence=f"Allocation of device memory holds {who(facts)} up: idle {pct(share)} of the time while "
        f"the host is in {called}. {why}",
        share=share,
        evidence=[seen(text, "allocation", share, ALLOCATION_SHARE)],
    )


def _checkpointing(facts: DeviceFacts) -> Candidate:
    share = facts.breakdown["checkpoint"]
    if share < CHECKPOINT_SHARE:
        return Candidate()
    text = f"the accelerator idles {pct(share)} of the time while a checkpoint is written"
    return Candidate(
        guilty=True,
        sentence=f"Writing checkpoints holds {who(facts)} up: idle {pct(share)} of the time meanwhile.",
        share=share,
        evidence=[seen(text, "checkpoint", share, CHECKPOINT_SHARE)],
    )


TESTS: dict[str, Callable[[DeviceFacts], Candidate]] = {
    "data_pipeline": _data_pipeline,
    "communication": _communication,
    "framework_overhead": _framework_overhead,
    "memory_pressure": _memory_pressure,
    "checkpointing": _checkpointing,
}
