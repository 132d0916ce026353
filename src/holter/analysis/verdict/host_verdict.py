"""The verdict on an imported trace without device work, from the threads of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.verdict.evidence import Evidence, pct, short_name
from holter.analysis.verdict.result import BOTTLENECK, COMMUNICATION_SHARE, Advice, Verdict
from holter.analysis.verdict.what_if_verdict import of_replay

if TYPE_CHECKING:
    from holter.analysis.host.horovod import Horovod
    from holter.analysis.verdict.device_facts import DeviceFacts

HOST_LOADING = BOTTLENECK
"""Data loading is the verdict if it takes this percentage of the main thread's time."""
MIN_NEGOTIATIONS = 10
"""A verdict on Horovod needs at least this many negotiated tensors."""


def without_device(facts: DeviceFacts) -> Verdict:
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
