"""Finds out how a job ended: exit code, cause, rank, step and phase, with a degree of certainty."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, NamedTuple

from holter.agent.machine.procfs import PROC, counters
from holter.schema.phases import ENDED
from holter.schema.signals import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holter.agent.drain.journal import Process
    from holter.agent.machine.cgroups import ControlGroup
    from holter.store.document_types import FailureEntry

NEAR_LIMIT = 0.95
"""From this share of the memory limit on, a SIGKILL is probably the kernel's."""
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
"""Texts of exceptions that follow the loss of another rank."""

_ROOT_CAUSE = re.compile(r"Root Cause.*?exitcode\s*:\s*(-?\d{1,10}) \(pid: (\d{1,10})\)", re.DOTALL)
"""Finds exit code and process of the first failed rank in torchrun's error."""


class Ended(NamedTuple):
    """How a process ended."""

    code: int | None
    """Exit code; None when a signal ended it or it is not known."""
    signal: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The code as a shell has it: 128 + the signal's number."""
        return self.code if self.signal is None else 128 + self.signal


class Ending(NamedTuple):
    """What the supervisor knows about the end of the command."""

    ended: Ended
    asked: bool = False
    """Whether a signal asked the job to end."""
    interrupted: bool = False
    """Whether the user pressed Ctrl-C shortly before the end."""


class OomCounters(NamedTuple):
    """The kernel's counters of out-of-memory kills at one time."""

    cgroup: int | None
    node: int | None

    @classmethod
    def read(cls, cgroup: ControlGroup, proc: Path = PROC) -> OomCounters:
        """Read both counters; None where the kernel has no counter."""
        return cls(cgroup.oom_kills(), counters(proc / "vmstat").get("oom_kill"))


class Oom(NamedTuple):
    """Whether the kernel killed a process because memory ran out."""

    certainty: str
    """certain, likely or possible."""
    evidence: str


def oom_kill(before: OomCounters, after: OomCounters, *, peak: float | None, limit: int | None) -> Oom | None:
    """Judge whether the kernel killed a process of the job, from counters before and after it.

    `peak` is the largest use of memory while the job ran, in bytes; `limit` is the available memory.
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
    return Oom("possible", f"{share} and the sender of SIGKILL is unknown") if near else None


def vanished(trainers: Sequence[Process]) -> list[Process]:
    """Return the trainers that died without an end or an exception of their own, first death first."""
    silent = [one for one in trainers if one.died is not None and one.end is None and one.exception is None]
    return sorted(silent, key=lambda one: one.died or 0)


def failure(
    ended: Ended,
    processes: Sequence[Process],
    *,
    oom: Oom | None,
    hanging: bool,
    clock_offset: int,
    rank_of: Callable[[Process], int],
) -> FailureEntry | None:
    """Return why a job failed; None when it did not fail.

    Args:
        ended: The end of the command; without code and signal for a process that is not our child.
        processes: All processes of this node that record, without data-loader workers.
        oom: The out-of-memory kill, as far as the counters show one.
        hanging: Whether ranks were hanging at the end.
        clock_offset: Wall time less monotonic time, ns.
        rank_of: Function from a process to its rank.
    """
    if ended.code == 0:
        return None
    # The exception of a rank is better evidence than its launcher's message.
    raised = sorted((p for p in processes if p.exception), key=lambda p: (not p.is_trainer, _raised_at(p)))
    trainers = [process for process in processes if process.is_trainer]
    gone = [t for t in vanished(trainers) if _before(t, raised, clock_offset)]
    attached = ended.code is None and ended.signal is None
    if attached and not raised and not gone:
        return None
    told = next(filter(None, (_launched(one, trainers) for one in raised)), None)
    culprit: Process | None
    if told is not None and told[1]["kind"] == "signal" and ended.signal is None:
        # The launcher ends the other ranks at once: they vanish too, in an order that nobody has seen.
        culprit, found = told
        if oom is not None and oom.certainty != "possible":
            found = _vanished(culprit, ended, alone=False, oom=oom)
    elif gone and ended.signal is None and (attached or len(trainers) > 1 or ended.code in _KILLED):
        found = _vanished(gone[0], ended, alone=len(trainers) == 1 and not attached, oom=oom)
        culprit = gone[0]
    elif raised and ended.signal is None:
        culprit, found = _launched(raised[0], trainers) or (raised[0], _raised(raised[0]))
    else:
        culprit = gone[0] if gone else trainers[0] if len(trainers) == 1 else None
        found = _exited(ended, oom=oom, hanging=hanging)
    step = -1 if culprit is None or not culprit.is_trainer else max(culprit.last_head_step, culprit.last_step)
    report: FailureEntry = {
        "kind": "exception",
        "step": step if step >= 0 else None,
        "phase": None if culprit is None or not culprit.is_trainer else culprit.last_phase,
        "exception": None,
        "rank": None if culprit is None or rank_of(culprit) < 0 else rank_of(culprit),
        "signal": ended.signal,
        "certainty": "certain",
        "evidence": None,
        **found,
    }
    if report["step"] == 0 and culprit is not None and not culprit.steps:
        report["step"] = None  # counts begin at 0, also where no step follows
    return report


def _vanished(process: Process, ended: Ended, *, alone: bool, oom: Oom | None) -> FailureEntry:
    """Describe a rank that died without a word."""
    number = ended.code - 128 if ended.code in _KILLED else None
    if oom is not None and oom.certainty != "possible":
        return {"kind": "oom", "signal": number, "certainty": oom.certainty, "evidence": oom.evidence}
    text = f"process {process.pid} vanished without an end or an exception of its own"
    return {"kind": "signal" if alone else "lost", "signal": number, "evidence": text}


def _launched(launcher: Process, trainers: Sequence[Process]) -> tuple[Process, FailureEntry] | None:
    """Describe the end of a silent rank by its launcher's message; None without such a message."""
    told = None if launcher.is_trainer else _ROOT_CAUSE.search(str((launcher.exception or {}).get("message")))
    rank = next((one for one in trainers if told is not None and one.pid == int(told[2])), None)
    if told is None or rank is None:
        return None
    code = int(told[1])
    how = signal_name(-code) if code < 0 else f"exit code {code}"
    after = "" if rank.end is None else ", after its recording had ended in order"
    return rank, {
        "kind": "signal" if code < 0 else "exception",
        "signal": -code if code < 0 else None,
        "evidence": f"the launcher says that process {rank.pid} ended with {how}{after}",
        **({} if rank.end is None else {"phase": ENDED}),
    }


def _raised(process: Process) -> FailureEntry:
    """Describe an exception, with the step and the phase it came from."""
    facts = process.exception or {}
    text = f"{facts.get('type', '')}: {facts.get('message', '')}"[:2000].rstrip(": ")
    found: FailureEntry = {"kind": "oom" if facts.get("oom") else "exception", "exception": text}
    if process.is_trainer and facts.get("step") is not None:
        found["step"] = facts["step"]
    if process.is_trainer and facts.get("phase") is not None:
        found["phase"] = facts["phase"]
    return found


def _exited(ended: Ended, *, oom: Oom | None, hanging: bool) -> FailureEntry:
    """Describe an end of which only the exit status is known."""
    if ended.signal == signal.SIGKILL and oom is not None:
        return {"kind": "oom", "certainty": oom.certainty, "evidence": oom.evidence}
    how = f"exit code {ended.code}"
    if ended.signal is not None:
        how = signal_name(ended.signal)
    if hanging:
        return {"kind": "hang", "evidence": f"it hung until the command ended with {how}"}
    if ended.signal is not None:
        return {"kind": "signal", "evidence": f"{how} ended the command"}
    return {"evidence": f"the command ended with {how}; no exception was recorded"}


_KILLED = tuple(
    128 + n for n in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGTERM)
)
"""Exit codes of a shell whose command was ended by a signal."""


def _raised_at(process: Process) -> int:
    return int((process.exception or {}).get("time") or 0)


def _before(process: Process, raised: Sequence[Process], clock_offset: int) -> bool:
    """Whether a process that vanished did so before the first exception, whose cause it then is."""
    if not raised or process.died is None:
        return process.died is not None
    facts, when = raised[0].exception or {}, _raised_at(raised[0]) - clock_offset
    if process.checked > when:
        return False
    return process.died < when or is_consequence(f"{facts.get('type', '')} {facts.get('message', '')}")


def is_consequence(exception: str) -> bool:
    """Tell whether an exception's text says that another rank is gone, rather than why."""
    text = exception.lower()
    return any(word in text for word in _CONSEQUENCE)
