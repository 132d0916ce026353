"""Contention for cores, on a machine made of files and on this one."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from tests.agent.conftest import until
from tests.agent.trees import stat_of, values, write

from holter.agent.collectors import LoopThread, Machine, Unavailable, Watched
from holter.agent.collectors.contention import Contention

SECOND = 1_000_000_000


def schedstats(**waited):
    """Return the files of processes that waited for a core so long, ns."""
    return {f"{pid[1:]}/task/{pid[1:]}/schedstat": f"5 {ns} 7\n" for pid, ns in waited.items()}


def test_the_delay_is_the_share_since_the_last_reading(machine):
    write(machine.proc, {f"{os.getpid()}/schedstat": "1 2 3\n", **schedstats(p10=0, p11=0, p12=0)})
    machine.watched.roles = {10: "trainer", 11: "trainer", 12: "worker"}
    collector = Contention(machine)
    assert ("trainer", "proc.cpu.delay") not in values(collector, 0)
    write(machine.proc, schedstats(p10=SECOND // 2, p11=SECOND // 10, p12=SECOND // 4))
    seen = values(collector, SECOND)
    assert seen["trainer", "proc.cpu.delay"] == pytest.approx(30)
    assert seen["worker", "proc.cpu.delay"] == pytest.approx(25)
    # A process that ends is left out, and one that appears has no share yet.
    (machine.proc / "10/task/10/schedstat").unlink()
    write(machine.proc, schedstats(p11=SECOND // 5))
    assert values(collector, 2 * SECOND)["trainer", "proc.cpu.delay"] == pytest.approx(10)


def test_the_delay_is_that_of_the_thread_that_trains(machine):
    write(machine.proc, {f"{os.getpid()}/schedstat": "1 2 3\n", **schedstats(p10=0)})
    write(machine.proc, {"10/task/15/schedstat": "5 0 7\n"})
    machine.watched.roles = {10: "trainer"}
    collector = Contention(machine)
    values(collector, 0)
    # A training begins in a thread of its own, as in a worker of Ray Train: its first share comes later.
    machine.watched.loops = {10: LoopThread(rank=0, thread=15, head=machine.proc)}
    assert ("trainer", "proc.cpu.delay") not in values(collector, SECOND)
    write(machine.proc, {"10/task/15/schedstat": f"5 {SECOND // 2} 7\n"})
    assert values(collector, 2 * SECOND)["trainer", "proc.cpu.delay"] == pytest.approx(50)


def test_threads_that_run_or_wait_are_counted_by_role(machine):
    write(machine.proc, {f"{os.getpid()}/schedstat": "1 2 3\n", **schedstats(p10=0, p12=0)})
    machine.watched.roles = {10: "trainer", 12: "worker"}
    tasks = {"10/task/10": (SECOND, 0), "10/task/11": (0, SECOND), "12/task/12": (SECOND // 2, 0)}
    write(machine.proc, {f"{task}/schedstat": "0 0 1\n" for task in tasks})
    collector = Contention(machine)
    assert ("trainer", "proc.runnable") not in values(collector, 0)
    write(machine.proc, {f"{task}/schedstat": f"{run} {wait} 9\n" for task, (run, wait) in tasks.items()})
    found = values(collector, SECOND)
    assert found["trainer", "proc.runnable"] == pytest.approx(2)
    assert found["worker", "proc.runnable"] == pytest.approx(0.5)


@pytest.mark.parametrize("text", ["0 0 0\n", "nothing\n", None])
def test_a_kernel_that_does_not_count_is_unavailable(machine, text):
    if text is not None:
        write(machine.proc, {f"{os.getpid()}/schedstat": text})
    with pytest.raises(Unavailable, match="schedstat"):
        Contention(machine)


def test_other_programs_are_named_without_their_arguments(machine):
    write(machine.proc, {f"{os.getpid()}/schedstat": "1 2 3\n"})
    programs = {"20": "stress", "21": "stress", "22": "idle", "10": "python", "23": "ray::Worker"}
    write(machine.proc, {f"{pid}/comm": f"{name}\n" for pid, name in programs.items()})
    write(machine.proc, {f"{pid}/stat": stat_of(int(pid), 1, ticks=0) for pid in programs})
    machine.watched.roots, machine.watched.roles = [10], {23: "trainer"}
    collector = Contention(machine)
    assert values(collector, 0) == {}
    ticks = 10 * os.sysconf("SC_CLK_TCK")
    used = {"20": ticks, "21": ticks // 2, "22": ticks // 100, "10": ticks, "23": ticks}
    write(machine.proc, {f"{pid}/stat": stat_of(int(pid), 1, ticks=spent) for pid, spent in used.items()})
    found = {key: value for key, value in values(collector, 10 * SECOND).items() if key[1] == "other.cpu"}
    ((device, _),) = found
    assert device.startswith("stress (")
    assert found[device, "other.cpu"] == pytest.approx(150)


def test_a_real_process_waits_for_its_core():
    core = min(os.sched_getaffinity(0))
    work = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
    children = [subprocess.Popen([sys.executable, "-c", work]) for _ in range(3)]
    machine = Machine(watched=Watched(roots=[children[0].pid], roles={children[0].pid: "trainer"}))
    try:
        collector = Contention(machine)
        seen = {}

        def waits():
            seen.update(values(collector, time.monotonic_ns()))
            return seen.get(("trainer", "proc.cpu.delay"), 0) > 30

        until(waits)
    finally:
        for child in children:
            child.kill()
            child.wait()
