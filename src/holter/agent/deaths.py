"""Say how a job ended: its exit, what killed it, in which rank, step and phase, and how sure that is."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holter.agent.cgroups import Cgroup
from holter.agent.journal import Process
from holter.agent.procfs import PROC

NEAR_LIMIT = 0.95
"""Share of the memory limit from which a SIGKILL is suspected to be the kernel's."""
_CONSEQUENCE = (
    "connection reset",
    "connection closed",
    "broken pipe",
    "gloo",
    "nccl",
    "peer",
    "watchdog",
    "store",
)
"""What an exception says when another rank is gone."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    code: int | None
    """Exit code; None when a signal ended it or it is not known."""
    signal: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The code as a shell has it: 128 + the signal's number."""
        return self.code if self.signal is None else 128 + self.signal


@dataclass(frozen=True, slots=True)
class OomCounters:
    """What the kernel had counted when it was looked at."""

    cgroup: int | None
    node: int | None

    @classmethod
    def read(cls, cgroup: Cgroup, proc: Path = PROC) -> OomCounters:
        """Read both counters; what is not there is None."""
        try:
            lines = (proc / "vmstat").read_text().splitlines()
        except OSError:
            lines = []
        node = [
            int(value) for name, _, value in (line.partition(" ") for line in lines) if name == "oom_kill"
        ]
        return cls(cgroup.oom_kills(), node[0] if node else None)


@dataclass(frozen=True, slots=True)
class Oom:
    """Whether the kernel killed for want of memory."""

    certainty: str
    """certain, likely or possible."""
    evidence: str


def oom_kill(before: OomCounters, after: OomCounters, *, peak: float | None, limit: int | None) -> Oom | None:
    """Judge whether the kernel killed one of the job's processes, which something sent SIGKILL.

    Args:
        before: Counters at the start of the job.
        after: Counters at its end.
        peak: The most memory that was in use while it ran, in bytes.
        limit: The memory there is, in bytes.
    """
    near = peak is not None and limit is not None and limit > 0 and peak >= NEAR_LIMIT * limit
    share = f"memory in use reached {100 * peak / limit:.0f}% of the limit" if near and peak and limit else ""
    if before.cgroup is not None and after.cgroup is not None and after.cgroup > before.cgroup:
        return Oom(
            "certain", f"the control group counted {after.cgroup - before.cgroup} out-of-memory kill(s)"
        )
    if before.node is not None and after.node is not None and after.node > before.node:
        text = f"the kernel counted {after.node - before.node} out-of-memory kill(s) on this machine"
        return Oom("likely", f"{text}; {share}" if share else text)
    return Oom("possible", f"{share} and nobody said who sent SIGKILL") if near else None


def vanished(trainers: Sequence[Process]) -> list[Process]:
    """Return the trainers that died without an end or an exception of their own, first death first."""
    silent = [one for one in trainers if one.died is not None and one.end is None and one.exception is None]
    return sorted(silent, key=lambda one: one.died or 0)


def failure(
    ended: Ended,
    trainers: Sequence[Process],
    *,
    oom: Oom | None,
    hanging: bool,
    clock_offset: int,
    rank_of: Any,
) -> dict[str, Any] | None:
    """Say what made a job fail; None when it did not.

    Args:
        ended: How the command ended.
        trainers: All training processes of this node.
        oom: What the counters say about an out-of-memory kill.
        hanging: Whether ranks were hanging at the end.
        clock_offset: Wall less monotonic time, ns.
        rank_of: Function from a process to its rank.
    """
    if ended.code == 0 or (
        ended.code is None and ended.signal is None and not any(t.exception for t in trainers)
    ):
        return None
    raised = sorted(
        (t for t in trainers if t.exception), key=lambda t: t.exception["time"] if t.exception else 0
    )
    # A launcher ends the ranks that are left with SIGTERM; those died after the culprit, whose fault it is.
    gone = [t for t in vanished(trainers) if _before(t, raised, clock_offset)]
    if gone and (ended.code is not None and (len(trainers) > 1 or ended.code in _KILLED)):
        culprit = gone[0]
        kind = "oom" if oom and oom.certainty != "possible" else "signal" if len(trainers) == 1 else "lost"
        certainty, evidence = (oom.certainty, oom.evidence) if kind == "oom" and oom else ("certain", _GONE)
        return _failure(
            kind,
            culprit,
            rank_of,
            certainty=certainty,
            evidence=evidence,
            signal_=ended.code - 128 if ended.code in _KILLED else None,
        )
    if raised and ended.signal is None:
        culprit = raised[0]
        facts = culprit.exception or {}
        text = f"{facts.get('type', '')}: {facts.get('message', '')}"[:2000].rstrip(": ")
        found = _failure("oom" if facts.get("oom") else "exception", culprit, rank_of, exception=text)
        for name in ("step", "phase"):
            if facts.get(name) is not None:
                found[name] = facts[name]
        return found
    culprit_or_none = gone[0] if gone else trainers[0] if len(trainers) == 1 else None
    if ended.signal is not None:
        if ended.signal == signal.SIGKILL and oom is not None:
            return _failure(
                "oom",
                culprit_or_none,
                rank_of,
                certainty=oom.certainty,
                evidence=oom.evidence,
                signal_=ended.signal,
            )
        name = (
            signal.Signals(ended.signal).name
            if ended.signal in set(signal.Signals)
            else f"signal {ended.signal}"
        )
        if hanging:
            return _failure(
                "hang",
                culprit_or_none,
                rank_of,
                evidence=f"it hung, then {name} ended it",
                signal_=ended.signal,
            )
        return _failure(
            "signal", culprit_or_none, rank_of, evidence=f"{name} ended the command", signal_=ended.signal
        )
    if hanging:
        return _failure(
            "hang", culprit_or_none, rank_of, evidence=f"it hung, then ended with exit code {ended.code}"
        )
    return _failure(
        "exception",
        culprit_or_none,
        rank_of,
        evidence=f"the command ended with exit code {ended.code}; no exception was recorded",
    )


_KILLED = (
    128 + signal.SIGKILL,
    128 + signal.SIGSEGV,
    128 + signal.SIGABRT,
    128 + signal.SIGBUS,
    128 + signal.SIGTERM,
)
_GONE = "the process vanished without an end or an exception of its own"


def _before(process: Process, raised: Sequence[Process], clock_offset: int) -> bool:
    """Whether a process that vanished did so before the first exception, whose cause it then is."""
    if not raised or process.died is None:
        return process.died is not None
    facts = raised[0].exception or {}
    when = int(facts.get("time") or 0) - clock_offset
    if process.checked > when:
        return False
    text = f"{facts.get('type', '')} {facts.get('message', '')}".lower()
    return process.died < when or any(word in text for word in _CONSEQUENCE)


def _failure(
    kind: str,
    process: Process | None,
    rank_of: Any,
    *,
    exception: str | None = None,
    certainty: str = "certain",
    evidence: str = "",
    signal_: int | None = None,
) -> dict[str, Any]:
    step = None if process is None else max(process.last_head_step, process.last_step)
    return {
        "kind": kind,
        "step": step if step is not None and step >= 0 else None,
        "phase": None if process is None else process.last_phase,
        "exception": exception,
        "rank": None if process is None else rank_of(process),
        "signal": signal_,
        "certainty": certainty,
        "evidence": evidence or None,
    }
