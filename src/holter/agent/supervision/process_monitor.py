"""Watches the trainers of a running job for ranks that vanish and ranks that hang."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from holter.agent.drain.journal import Process, RecordedEvent
from holter.agent.machine import procfs
from holter.agent.supervision.hangs import HangLimits, Silence, diagnosis, line
from holter.agent.supervision.stack_groups import odd_ranks, sentence, stack_groups
from holter.agent.supervision.stacks import StackRequest, common_frame, loop_stack, own_frame
from holter.schema.phases import ENDED, Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holter.agent.drain.drain import Drain
    from holter.agent.supervision.stacks import StackFrame
    from holter.store.documents import Document

STACKS_WAIT_NS = 1_500_000_000
"""Time limit for stacks; a process writes them at once unless it is stuck in the kernel."""
_MAX_REQUESTS = 16
_BUSY_PCT = 20.0
_COMPUTE = Phase.COMPUTE.name.lower()
_BESIDE_STOPPED_S = 5.0
"""Silence that is allowed while another rank of the training is stopped, unless steps take long."""
_GAP_NS = 5_000_000_000
"""A longer pause between two checks means that the agent was stopped, and most likely the job too."""


class ProcessMonitor:
    """Turns what the drain knows of the trainers into events `lost`, `hang` and `stacks`."""

    def __init__(
        self,
        drain: Drain,
        limits: HangLimits,
        *,
        proc: Path = procfs.PROC,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """`tell` is given a line for people when ranks hang, and when they move again."""
        self._limits = limits
        self._hanging: dict[str, Silence] = {}
        """The ranks that hang, by process."""
        self._drain = drain
        self._proc = proc
        self._tell = tell
        self._stopped: list[int] = []
        """Ranks that a signal has stopped, of a training of several ranks."""
        self._lost: set[str] = set()
        self._cpu: dict[str, tuple[int, float]] = {}
        """For each trainer: its last progress, and the CPU time it had used then."""
        self._looked: int | None = None
        self._requests: list[StackRequest] = []
        self._asked: int | None = None
        self._begun: dict[str, Silence] = {}
        """New hangs that are not reported yet."""
        self._noticed: dict[str, int] = {}
        """For each trainer that hangs: when that was noticed, monotonic ns."""
        self._wanted: list[StackRequest] = []
        """Stacks that a user asked for."""
        self._wanted_at = 0

    @property
    def hanging(self) -> bool:
        """Whether any rank hangs, or hung to its end."""
        return bool(self._hanging)

    def look(self, now: int, *, ending: bool = False) -> list[RecordedEvent]:
        """Look once, about every second; `ending`: the job is being stopped, so that ranks may vanish."""
        if self._looked is not None and now - self._looked > _GAP_NS:
            for process in self._drain.trainers():
                process.last_progress += now - self._looked
        self._looked = now
        events = [] if ending else self._look_for_lost(now)
        events += self._look_for_hangs(now)
        if self._asked is not None and now - self._asked >= STACKS_WAIT_NS:
            events += self._tell_hang(now)
        if self._wanted and now - self._wanted_at >= STACKS_WAIT_NS:
            events += filter(None, (self._stacks(request, request.text(), now) for request in self._wanted))
            self._wanted = []
        for event in events:
            if event.kind == "hang" and self._tell is not None:
                self._tell(line(event.detail))
        return events

    def end(self, now: int, *, well: bool) -> list[RecordedEvent]:
        """Check a last time after the job's end; `well` means that it completed by itself."""
        told = self._tell_hang(now) if self._begun else []
        kept = dict(self._hanging)
        if well:
            kept = {key: one for key, one in kept.items() if not self._drain.processes[key].ended_well}
        return told + self._update(kept, now)

    def ask(self, now: int) -> None:
        """Ask every process that records for its stacks; the events follow when it has had time to write."""
        self._wanted = [
            StackRequest(self._drain.spool, one, proc=self._proc)
            for one in self._drain.alive()[:_MAX_REQUESTS]
        ]
        self._wanted_at = now

    def _look_for_lost(self, now: int) -> list[RecordedEvent]:
        trainers = self._drain.trainers()
        living = [self._drain.ranks.of(one) for one in trainers if one.died is None]
        trainers = [one for one in trainers if one.run is None]  # the controller of a run watches its workers
        events = []
        for process in trainers:
            if process.died is None or process.end is not None or process.key in self._lost or not living:
                continue
            self._lost.add(process.key)
            step = max(process.last_head_step, process.last_step)
            detail = {
                "process": process.key,
                "step": step if step >= 0 else None,
                "phase": process.last_phase,
                "open": process.last_open,
                "exception": process.exception,
                "living": sorted(living),
            }
            rank = self._drain.ranks.of(process)
            text = "raised an exception" if process.exception else "vanished"
            events.append(self._event(process.died, rank, "lost", f"rank {rank} {text}", detail))
        return events

    def _look_for_hangs(self, now: int) -> list[RecordedEvent]:
        silences: dict[str, Silence] = {}
        living = [one for one in self._drain.trainers() if one.died is None and one.records]
        stats = {one.key: procfs.stat(one.pid, self._proc) for one in living}
        stopped = [one for one in living if (stat := stats[one.key]) is not None and stat.state in "Tt"]
        ranks = [self._drain.ranks.of(one) for one in living]
        self._stopped = sorted(map(self._drain.ranks.of, stopped)) if len(set(ranks)) == len(ranks) else []
        for process in living:
            if process in stopped:  # it does not hang; others may wait for it
                process.last_progress = now
            silence = self._silence(process, stats[process.key], now)
            if silence is not None:
                silences[process.key] = silence
        for key, silence in self._hanging.items():
            # A process that is ended leaves what it hung in too; only one that goes on begins something new.
            if self._drain.processes[key].begun <= self._noticed[key]:
                silences.setdefault(key, silence)
        return self._update(silences, now)

    def _update(self, silences: dict[str, Silence], now: int) -> list[RecordedEvent]:
        """Note which ranks hang now; return events for reported hangs that are over."""
        begun = {key: silence for key, silence in silences.items() if key not in self._hanging}
        ended = {key: silence for key, silence in self._hanging.items() if key not in silences}
        self._hanging = silences
        if begun:
            self._noticed |= dict.fromkeys(begun, now)
            self._asked = now if self._asked is None else self._asked
            self._begun |= begun
            asked = {request.process.key for request in self._requests}
            wanted = [self._drain.processes[key] for key in begun if key not in asked]
            asked |= set(begun)
            # A rank for which the others wait is not silent yet, or seems to work.
            wanted += [one for one in self._drain.trainers() if one.died is None and one.key not in asked]
            wanted += [one for one in self._drain.alive() if one.is_worker and one.parent in begun]
            free = _MAX_REQUESTS - len(self._requests)
            self._requests += [StackRequest(self._drain.spool, one, proc=self._proc) for one in wanted[:free]]
        events = []
        for key, silence in ended.items():
            if self._begun.pop(key, None):
                if not self._begun:
                    self._asked, self._requests = None, []
                continue
            detail = {
                "recovered": True,
                "rank": silence.rank,
                "step": silence.step,
                "silent_s": round(silence.silent_s, 1),
            }
            events.append(self._event(now, silence.rank, "hang", "recovered", detail))
        return events

    def _silence(self, process: Process, stat: procfs.Stat | None, now: int) -> Silence | None:
        phase = process.last_phase if process.end is None else ENDED
        took = self._drain.slow.get(phase or "")
        silent_s = (now - process.last_progress) / 1e9
        limit_s = self._limits.limit_s(process.durations, phase, median(took) / 1e9 if took else None)
        used = self._used(process, stat)
        # Code outside of all phases, and work in one piece, may take the longest time.
        busy = phase in (None, ENDED, _COMPUTE) and used is not None and used > _BUSY_PCT
        allowed_s = self._limits.max_s if busy else limit_s
        if self._stopped and process.durations:
            brief = replace(self._limits, min_s=min(_BESIDE_STOPPED_S, self._limits.min_s))
            allowed_s = brief.limit_s(process.durations)
        if silent_s <= allowed_s:
            return None
        step = max(process.last_head_step, process.last_step)
        return Silence(self._drain.ranks.of(process), silent_s, limit_s, phase, step)

    def _used(self, process: Process, stat: procfs.Stat | None) -> float | None:
        """Return CPU used since the last progress, in percent of a core."""
        if stat is None:
            return None
        known = self._cpu.get(process.key)
        if known is None or known[0] != process.last_progress:
            known = self._cpu[process.key] = (process.last_progress, stat.cpu_s)
        elapsed = ((self._looked or 0) - process.last_progress) / 1e9
        return 100.0 * (stat.cpu_s - known[1]) / elapsed if elapsed > 0 else None

    def _stacks(self, request: StackRequest, text: str, now: int) -> RecordedEvent | None:
        """Return what a process wrote as an event, if it wrote anything."""
        if not text:
            return None
        process = request.process
        frames = _stack(process, text)
        own = own_frame(frames)
        shown = str(own) if own else None
        detail = {"process": process.key, "role": process.role, "text": text, "own": shown}
        top = str(frames[0]) if frames else ""
        return self._event(now, self._drain.ranks.of(process), "stacks", top, detail)

    def _tell_hang(self, now: int) -> list[RecordedEvent]:
        """Write down the stacks that came, and what they and the processes' state say."""
        self._asked = None
        silences, self._begun = sorted(self._begun.values()), {}
        requests, self._requests = self._requests, []
        events, stacks, states, used = [], [], [], []
        hung = {silence.rank for silence in silences}
        by_rank: dict[int, list[StackFrame]] = {}
        for request in requests:
            process, text = request.process, request.text()
            frames = _stack(process, text)
            rank = self._drain.ranks.of(process)
            if process.is_trainer and rank not in self._stopped:
                # Of unrelated trainings, several processes have the same rank.
                by_rank[rank] = frames if rank not in by_rank else []
            if process.is_trainer and rank in hung:
                stacks.append(frames)
                stat = procfs.stat(process.pid, self._proc)
                states += [stat.state] if stat else []
                cpu = self._used(process, stat)
                used += [cpu] if cpu is not None else []
            if (event := self._stacks(request, text, now)) is not None:
                events.append(event)
        moving = sum(one.died is None for one in self._drain.trainers()) - len(self._stopped)
        cpu_pct = sum(used) / len(used) if used else None
        kind, text = diagnosis(silences, cpu_pct=cpu_pct, states=states, trainers=moving)
        groups = stack_groups(by_rank, self._stopped)
        odd = self._stopped or odd_ranks(groups)
        if self._stopped:
            kind = "stopped_rank"
        frame = common_frame(stacks)
        own = next((own for stack in stacks if (own := own_frame(stack))), None)
        if len(groups) > 1:
            text = f"{sentence(groups)}; {text}"
        elif frame is not None:
            text += f"; stands in {frame[0]}" + (
                f", called from {own}" if own and str(own) != frame[0] else ""
            )
        found: Document = {
            "ranks": sorted(silence.rank for silence in silences),
            "odd_ranks": odd,
            "groups": [{"ranks": one.ranks, "place": one.place} for one in groups],
            "phase": silences[0].phase,
            "step": silences[0].step if silences[0].step >= 0 else None,
            "silent_s": round(max(silence.silent_s for silence in silences), 1),
            "limit_s": round(max(silence.limit_s for silence in silences), 1),
            "cpu_pct": None if cpu_pct is None else round(cpu_pct, 1),
            "kind": kind,
            "text": text,
            "frame": frame[0] if frame else None,
            "own_frame": str(own) if own else None,
            "stacks": len([1 for stack in stacks if stack]),
            "recovered": False,
        }
        named = odd or sorted(hung)
        rank = named[0] if len(named) == 1 else -1
        events.append(self._event(now, rank, "hang", kind, found))
        return events

    def _event(self, when: int, rank: int, kind: str, name: str, detail: Document) -> RecordedEvent:
        return RecordedEvent(self._drain.clock.to_wall(when), rank, kind, name, detail)


def _stack(process: Process, text: str) -> list[StackFrame]:
    """Return where the loop of a process stands, as far as its stacks say."""
    return loop_stack(text, process.loop_head.ident if process.loop_head else 0)
