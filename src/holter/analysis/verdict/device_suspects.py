"""The suspects of a trace. Each test returns a sentence and evidence, or why the suspect is not guilty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.device.arrivals import late_together
from holter.analysis.slow_group import ranks_text
from holter.analysis.verdict.device_facts import ALLOCATING, LOADING
from holter.analysis.verdict.evidence import Evidence, capitalized, ms, pct, short_name, us
from holter.analysis.verdict.result import CHECKPOINT_SHARE, COMMUNICATION_SHARE, SuspectResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.analysis.device.arrivals import LateRank
    from holter.analysis.verdict.device_facts import DeviceFacts

LOADING_SHARE = 10.0
"""Data loading is guilty if the accelerator idles this percentage of the time for batches."""
COPIES_SHARE = 10.0
ALLOCATION_SHARE = 10.0
MANY_ALLOCATIONS = 100
"""A caching allocator allocates memory only a few dozen times."""
HOST_SHARE = 20.0
"""The host is guilty if the accelerator idles this percentage of the time for launches."""


def _idle(facts: DeviceFacts, percent: float) -> str:
    return f"{'it idles' if facts.devices == 1 else 'they idle'} {pct(percent)}"


def _data_pipeline(facts: DeviceFacts) -> SuspectResult:
    waited, h2d = facts.breakdown["data_loading"], facts.h2d_pct
    if waited < LOADING_SHARE and h2d < COPIES_SHARE:
        said = f"the accelerator idles {pct(waited)} of the time for batches"
        return SuspectResult(because=said if facts.loading_pct > 0 or facts.steps else "")
    if waited >= h2d:
        of = f" of each step ({ms(facts.step_ms)})" if facts.step_ms and facts.steps > 1 else " of the time"
        blamed = facts.blamed["data_loading"] if facts.stacks else []
        inside = [name for name, part in blamed if name and not LOADING.search(name) and part >= 25]
        most = f", mostly in {short_name(inside[0])}" if inside else ""
        sentence = (
            f"Data loading holds {facts.accelerators} up: {_idle(facts, waited)}{of} while the host waits "
            f"for the next batch{most}."
        )
        text = f"the accelerator idles {pct(waited)} of the time while the host waits for batches"
        evidence = [Evidence(text, "data_loading", waited, LOADING_SHARE)]
        if facts.loading_pct > waited + 1:
            whole = (
                f"waiting for batches takes {pct(facts.loading_pct)} of the host's time; work of the "
                "accelerator hides the rest"
            )
            evidence.append(Evidence(whole, "data_loading.host", facts.loading_pct))
        return SuspectResult(guilty=True, sentence=sentence, share=waited, evidence=evidence)
    text = f"exposed copies from the host take {pct(h2d)} of the time"
    return SuspectResult(
        guilty=True,
        sentence=f"Copying input to {facts.accelerators} takes {pct(h2d)} of the time, in which nothing "
        "computes.",
        share=h2d,
        evidence=[Evidence(text, "h2d", h2d, COPIES_SHARE)],
    )


def _late(facts: DeviceFacts, worst: LateRank, exposed: float) -> SuspectResult:
    """The ranks that come late to collectives, if several do so for a similar time."""
    group = late_together(facts.late)
    text = ranks_text([late.rank for late in group])
    who = f"{capitalized(text)} "
    longer, late_for = ms(worst.extra_busy_ns / 1e6), ms(worst.lateness_ns / 1e6)
    if len(group) == 1:
        said = f"{who}holds the others up: it is late at {worst.later} of {worst.collectives} collectives"
        why = "its host: its accelerator has no more work than the others"
        computes = f"its accelerator, which computes {longer} longer than the others"
    else:
        said = f"{who}({len(group)} of {len(facts.ranks)}) hold the others up: rank {worst.rank} is late at "
        said += f"{worst.later} of {worst.collectives} collectives"
        why = "their hosts: their accelerators have no more work than the others"
        computes = f"their accelerators, which compute up to {longer} longer than the others"
    return SuspectResult(
        guilty=True,
        sentence=f"{said}, for {late_for} of {ms(facts.window_ns / 1e6)}. The delay comes from "
        f"{computes if worst.cause == 'device' else why}.",
        share=max(worst.cost_pct, exposed),
        evidence=[
            *(
                Evidence(
                    f"rank {late.rank} enters {late.later} of {late.collectives} collectives later than the "
                    f"others, {ms(late.lateness_ns / 1e6)} in total; it is the last rank in {late.last} of "
                    "them",
                    "communication.late",
                    late.cost_pct,
                    None,
                    f"rank {late.rank}",
                )
                for late in group[:2]
            ),
            Evidence(f"exposed communication takes {pct(exposed)} of the time", "communication", exposed),
        ],
    )


def _communication(facts: DeviceFacts) -> SuspectResult:
    exposed = facts.breakdown["communication"]
    if facts.late:
        return _late(facts, facts.late[0], exposed)
    if not facts.communication_pct:
        return SuspectResult(because="the trace holds no communication")
    if exposed < COMMUNICATION_SHARE:
        hidden = facts.communication_pct - exposed
        return SuspectResult(
            because=f"exposed communication takes {pct(exposed)} of the time, and hidden communication "
            f"takes {pct(hidden)}"
        )
    whole = pct(facts.communication_pct)
    text = f"communication takes {whole} of the time, and {pct(exposed)} is exposed"
    alone = len(facts.ranks) == 1
    unknown = " Import the traces of the other ranks to separate the transfer from waiting."
    return SuspectResult(
        guilty=True,
        sentence=f"Exposed communication takes {pct(exposed)} of the time.{unknown if alone else ''}",
        share=exposed,
        evidence=[Evidence(text, "communication", exposed, COMMUNICATION_SHARE)],
    )


def _framework_overhead(facts: DeviceFacts) -> SuspectResult:
    waited = facts.breakdown["host"]
    if waited < HOST_SHARE:
        return SuspectResult(
            because=f"the accelerator waits {pct(waited)} of the time for the host to launch work"
        )
    rate = facts.kernels / max(facts.devices, 1) / max(facts.window_ns / 1e9, 1e-9)
    kernel = us(facts.median_kernel_us)
    text = f"the accelerator idles {pct(waited)} of the time because the host has not launched the next work"
    small = f"the median kernel takes {kernel}, and the host launches {rate:,.0f} kernels per second"
    evidence = [
        Evidence(text, "host", waited, HOST_SHARE),
        Evidence(small, "kernel.median_us", facts.median_kernel_us),
    ]
    synced = facts.after_sync_pct >= waited / 2
    if synced:
        after = facts.after_sync_pct
        text = f"the accelerator idles {pct(after)} of the time right after the host waited for it"
        evidence.append(Evidence(text, "sync", after))
    doing = [f"{short_name(name)} {pct(share)}" for name, share in facts.blamed["host"][:3] if share >= 1]
    if doing:
        text = f"meanwhile the host runs {', '.join(doing)}"
        evidence.append(Evidence(text, "host.blamed", facts.blamed["host"][0][1]))
    if facts.stacks:
        text = "recording Python functions slows the host, so the accelerator idles less without it"
        evidence.append(Evidence(text, "stacks", 1.0))
    why = " The host often waits for results before it goes on." if synced else ""
    return SuspectResult(
        guilty=True,
        sentence=f"The host cannot keep {facts.accelerators} busy: {_idle(facts, waited)} of the time until "
        f"the host launches the next work, and the median kernel takes {kernel}.{why}",
        share=waited,
        evidence=evidence,
    )


def _memory_pressure(facts: DeviceFacts) -> SuspectResult:
    share = facts.breakdown["allocation"]
    if share < ALLOCATION_SHARE:
        return SuspectResult()
    names = [name for name, part in facts.blamed["allocation"] if ALLOCATING.search(name) and part >= 5]
    called = " and ".join(names[:2]) or "allocating memory"
    text = f"the accelerator idles {pct(share)} of the time while the host runs {called}"
    why = "Either the trace has no warm-up, or memory is so short that the allocator returns its cache."
    if facts.allocations >= MANY_ALLOCATIONS:
        why = f"There are {facts.allocations:,} such calls: freed memory is not kept, or memory is short."
    return SuspectResult(
        guilty=True,
        sentence=f"Allocation of device memory holds {facts.accelerators} up: {_idle(facts, share)} of the "
        f"time while the host runs {called}. {why}",
        share=share,
        evidence=[Evidence(text, "allocation", share, ALLOCATION_SHARE)],
    )


def _checkpointing(facts: DeviceFacts) -> SuspectResult:
    share = facts.breakdown["checkpoint"]
    if share < CHECKPOINT_SHARE:
        return SuspectResult()
    text = f"the accelerator idles {pct(share)} of the time while a checkpoint is written"
    return SuspectResult(
        guilty=True,
        sentence=f"Writing checkpoints holds {facts.accelerators} up: {_idle(facts, share)} of the time "
        "meanwhile.",
        share=share,
        evidence=[Evidence(text, "checkpoint", share, CHECKPOINT_SHARE)],
    )


TESTS: dict[str, Callable[[DeviceFacts], SuspectResult]] = {
    "data_pipeline": _data_pipeline,
    "communication": _communication,
    "framework_overhead": _framework_overhead,
    "memory_pressure": _memory_pressure,
    "checkpointing": _checkpointing,
}
