"""The state of training threads, on a machine made of files and on this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.agent.conftest import until
from tests.agent.spool import Writer
from tests.agent.trees import values, write

from holter.agent.collectors import LoopThread, Machine, Unavailable, Watched
from holter.agent.collectors.threads import Threads
from holter.agent.machine.procfs import TICKS
from holter.schema import record
from holter.schema.phases import Phase

SECOND = 1_000_000_000


def thread_of(state="R", faults=0, io=0, run=1, wait=0, switches=0, preempted=0):
    """Return the files of thread 11 of process 10."""
    rest = [*["0"] * 8, faults, *["0"] * 29, io, 0]
    return {
        "10/task/11/stat": f"11 (py thon) {state} " + " ".join(map(str, rest)),
        "10/task/11/schedstat": f"{run} {wait} 5",
        "10/task/11/status": f"Name:\tpython\nvoluntary_ctxt_switches:\t{switches}\n"
        f"nonvoluntary_ctxt_switches:\t{preempted}\n",
    }


@pytest.fixture
def watched(machine, tmp_path):
    """A machine whose process 10 has a training thread, and the head page of that thread."""
    write(machine.proc, {f"{os.getpid()}/schedstat": "1 2 3\n", **thread_of()})
    process = Writer(tmp_path)
    process.head(open_=[(5, Phase.FORWARD, "")])
    head = tmp_path / record.head_name(process.key, 0)
    machine.watched.loops = {10: LoopThread(3, 11, head)}
    return machine, process


def test_a_thread_runs_waits_or_is_blocked(watched):
    machine, process = watched
    collector = Threads(machine)
    first = values(collector, 0)
    assert first == {("rank 3", "thread.stopped"): 0, ("rank 3 forward", "thread.blocked"): 0}
    counted = {"faults": 30, "switches": 8, "preempted": 4, "run": SECOND // 2, "wait": SECOND // 4}
    write(machine.proc, thread_of("D", **counted))
    process.head(open_=[])
    assert values(collector, 2 * SECOND) == {
        ("rank 3", "thread.stopped"): 0,
        ("rank 3 other", "thread.blocked"): 100,
        ("rank 3", "thread.running"): pytest.approx(25, abs=0.01),
        ("rank 3", "thread.waiting"): 12.5,
        ("rank 3", "thread.major_faults"): 15,
        ("rank 3", "thread.switches"): 4,
        ("rank 3", "thread.preemptions"): 2,
    }


def test_the_wait_for_disks_is_known_only_where_the_kernel_measures_it(watched):
    machine, _ = watched
    assert [what for what, _ in Threads(machine).missing] == ["thread.io"]
    write(machine.proc, {"sys/kernel/task_delayacct": "1\n"})
    collector = Threads(machine)
    assert not collector.missing
    values(collector, 0)
    write(machine.proc, thread_of(io=TICKS // 2))
    assert values(collector, SECOND)["rank 3", "thread.io"] == 50


def test_a_kernel_that_counts_no_waits_is_unavailable(machine):
    write(machine.proc, {f"{os.getpid()}/schedstat": "0 0 0\n"})
    with pytest.raises(Unavailable, match="schedstat"):
        Threads(machine)


def test_a_thread_that_has_ended_has_no_readings(watched):
    machine, _ = watched
    (machine.proc / "10/task/11/stat").unlink()
    assert values(Threads(machine), 0) == {}


def test_a_real_thread_is_stopped(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    loops = {child.pid: LoopThread(0, child.pid, tmp_path / "no head")}
    try:
        collector = Threads(Machine(watched=Watched(loops=loops)))

        def seen(metric):
            return values(collector, time.monotonic_ns()).get(("rank 0", metric), 0)

        assert until(lambda: seen("thread.running") + seen("thread.waiting"))
        child.send_signal(signal.SIGSTOP)
        assert until(lambda: seen("thread.stopped")) == 100
    finally:
        child.kill()
        child.wait()
