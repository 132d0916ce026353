"""The verdict on a trace without accelerators: what the host's threads, Horovod or a job's workers tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.analysis.verdict.advice import Advice
from holter.analysis.verdict.device_candidates import COMMUNICATION_SHARE, seen, short
from holter.analysis.verdict.evidence import pct
from holter.analysis.verdict.suspects import Verdict

if TYPE_CHECKING:
    from holter.analysis.host.horovod import Horovod
    from holter.analysis.verdict.device_facts import DeviceFacts

HOST_LOADING = 30.0
"""Of a trace without accelerators, the share of its main thread that is worth a verdict."""
MIN_NEGOTIATIONS = 10
"""Fewer tensors of Horovod are no ground for a verdict."""


def without_device(facts: DeviceFacts) -> Verdict:
    """Judge a trace that holds no work of an accelerator."""
    if not facts.host_parts:
        return Verdict(
            suspect="inconclusive",
            sentence="The trace holds no kernel, and no operator or function of the host.",
            missing=["kernels", "operators"],
        )
    top = [(name, share) for name, share in facts.host_parts.items() if name and share >= 1][:3]
    doing = ", ".join(f"{short(name)} {pct(share)}" for name, share in top) or "nothing that the trace names"
    evidence = [
        seen(f"{short(name)} takes {pct(share)} of the main thread's time", name, share)
        for name, share in top
    ]
    if facts.loading_pct >= HOST_LOADING:
        text = f"waiting for batches takes {pct(facts.loading_pct)} of the main thread's time"
        return Verdict(
            suspect="data_pipeline",
            sentence=f"Data loading takes {pct(facts.loading_pct)} of the main thread's time.",
            share_pct=facts.loading_pct,
            evidence=[seen(text, "data_loading.host", facts.loading_pct, HOST_LOADING), *evidence],
            missing=["kernels"],
        )
    if facts.horovod:
        return _of_horovod(facts.horovod)
    if facts.slow:
        return _slow(facts)
    return Verdict(
        suspect="inconclusive",
        sentence=f"The trace holds no work of an accelerator. The host's main thread spends most in {doing}.",
        evidence=evidence,
        missing=["kernels: the trace has no device activity"],
    )


def _of_horovod(found: Horovod) -> Verdict:
    """Judge a timeline of Horovod: tensors that wait for ranks, beside those that move."""
    waiting, moving = found.negotiating_pct, found.moving_pct
    text = f"tensors are negotiated {pct(waiting)} of the time, and exchanged {pct(moving)}"
    evidence = [
        seen(f"{text} ({found.tensors:,} negotiations)", "communication", waiting, COMMUNICATION_SHARE)
    ]
    missing = ["the other ranks' step times: Horovod's timeline does not say who was late"]
    if waiting < COMMUNICATION_SHARE or found.tensors < MIN_NEGOTIATIONS:
        return Verdict(
            suspect="inconclusive",
            sentence=f"Of Horovod's timeline {pct(waiting)} is waiting for all ranks to have a tensor ready, "
            f"{pct(moving)} exchange: the rest it does not show.",
            evidence=evidence,
            missing=["kernels, or a recording by holter", *missing],
        )
    return Verdict(
        suspect="communication",
        sentence=f"Ranks wait for one another: {pct(waiting)} of the time a tensor is ready on some rank and "
        f"not on all (NEGOTIATE), and exchange takes {pct(moving)}.",
        share_pct=waiting,
        evidence=evidence,
        missing=missing,
    )


def _slow(facts: DeviceFacts) -> Verdict:
    """Judge a trace of workers' operations: whom the others have to wait for."""
    first = facts.slow[0]
    lost = 100.0 * (1 - 1 / first.ratio) * first.share_pct / 100
    more = f", like {len(facts.slow) - 1} more of them" if len(facts.slow) > 1 else ""
    return Verdict(
        suspect="communication",
        sentence=f"{first.label} takes {first.ratio:.2g} times as long as the median of {first.alike} "
        f"threads that do the same{more}, most of it in {short(first.name)}: who needs its results waits.",
        share_pct=lost,
        evidence=[
            seen(
                f"{slow.label} takes {slow.ratio:.3g} times the median thread's time for the same calls, "
                f"{pct(slow.share_pct)} of its own",
                "thread.ratio",
                slow.ratio,
                1.0,
                slow.label,
            )
            for slow in facts.slow[:5]
        ],
        advice=[
            Advice("Look at what it has more of: work, or a slower machine.", None, "all others are alike")
        ],
        missing=["kernels"],
    )
