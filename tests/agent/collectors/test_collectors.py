"""Each collector on a machine made of files, where every number is known."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest
from tests.agent.conftest import until
from tests.agent.trees import DISKSTATS, NET, cgroup2, cpu_stat, stat_of, values, write

from holter.agent.collectors import Machine, Unavailable, Watched
from holter.agent.collectors.cgroup import Cgroup as Throttling
from holter.agent.collectors.cpu import Cpu
from holter.agent.collectors.disk import Disk
from holter.agent.collectors.memory import Memory
from holter.agent.collectors.network import Network
from holter.agent.collectors.overhead import Overhead
from holter.agent.collectors.pressure import Pressure
from holter.agent.collectors.processes import Processes
from holter.agent.machine.cgroups import ControlGroup

SECOND = 1_000_000_000


def test_cpu_is_the_share_since_the_last_reading_and_absent_at_first(machine):
    write(machine.proc, {"stat": cpu_stat((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0))})
    cpu = Cpu(machine)
    assert values(cpu, 0) == {("", "cpu.load1"): 1.5}
    write(machine.proc, {"stat": cpu_stat((50, 50, 0), (100, 0, 0), (30, 50, 20), (0, 100, 0))})
    found = values(cpu, SECOND)
    assert found["cpu0", "cpu.core.util"] == pytest.approx(50)
    assert found["cpu1", "cpu.core.util"] == pytest.approx(100)
    assert found["cpu2", "cpu.core.util"] == pytest.approx(30)
    assert found["cpu2", "cpu.core.iowait"] == pytest.approx(20)
    assert found["", "cpu.util"] == pytest.approx(40)  # of cores 0 and 2, which the job may use
    assert found["", "cpu.iowait"] == pytest.approx(10)


def test_cpu_within_one_tick_and_counters_that_go_back_give_no_nonsense(machine):
    write(machine.proc, {"stat": cpu_stat((10, 10, 10))})
    cpu = Cpu(machine)
    values(cpu, 0)
    assert ("cpu0", "cpu.core.util") not in values(cpu, 1)
    write(machine.proc, {"stat": cpu_stat((20, 10, 5))})  # the kernel does turn the waiting time back
    found = values(cpu, SECOND)
    assert found["cpu0", "cpu.core.util"] == pytest.approx(100)
    assert found["cpu0", "cpu.core.iowait"] == 0


def test_a_core_that_comes_later_is_absent_at_first(machine):
    write(machine.proc, {"stat": cpu_stat((0, 0, 0))})
    cpu = Cpu(machine)
    values(cpu, 0)
    write(machine.proc, {"stat": cpu_stat((5, 5, 0), (5, 5, 0))})
    assert ("cpu1", "cpu.core.util") not in values(cpu, SECOND)


def test_with_a_quota_the_group_s_own_use_counts(machine, tmp_path):
    folder = cgroup2(machine.sys)
    write(machine.proc, {"self/cgroup": "0::/kubepods/job\n", "stat": cpu_stat(*[(0, 0, 0)] * 4)})
    limited = Machine(
        proc=machine.proc,
        sys=machine.sys,
        cores=frozenset(range(4)),
        cgroup=ControlGroup.of(proc=machine.proc, sys=machine.sys),
    )
    cpu = Cpu(limited)
    values(cpu, 0)
    usage = "usage_usec 4200000\nnr_periods 120\nnr_throttled 40\n"
    write(folder, {"kubepods/job/cpu.stat": usage})
    write(machine.proc, {"stat": cpu_stat(*[(10, 90, 0)] * 4)})
    assert values(cpu, SECOND)["", "cpu.util"] == pytest.approx(80)  # 1.2 s of the 1.5 it may use


def test_throttling_is_a_share_of_periods(machine):
    folder = cgroup2(machine.sys)
    write(machine.proc, {"self/cgroup": "0::/kubepods/job\n"})
    limited = Machine(
        proc=machine.proc, sys=machine.sys, cgroup=ControlGroup.of(proc=machine.proc, sys=machine.sys)
    )
    throttling = Throttling(limited)
    assert values(throttling, 0) == {}
    write(folder, {"kubepods/job/cpu.stat": "nr_periods 120\nnr_throttled 40\n"})
    assert values(throttling, SECOND) == {("", "cgroup.throttled_pct"): pytest.approx(75)}
    assert values(throttling, 2 * SECOND) == {}  # no period has passed
    with pytest.raises(Unavailable, match="no CPU quota"):
        Throttling(machine)


def test_memory_of_the_node(machine):
    found = values(Memory(machine), 0)
    assert found["", "mem.used"] == 10_000_000 * 1024
    assert found["", "mem.used_pct"] == pytest.approx(62.5)
    assert found["", "mem.available"] == 6_000_000 * 1024
    assert found["", "mem.swap_used"] == 250_000 * 1024
    assert ("", "shm.used") not in found


def test_memory_of_the_control_group_when_its_limit_is_smaller(machine):
    cgroup2(machine.sys)
    write(machine.proc, {"self/cgroup": "0::/kubepods/job\n"})
    limited = Machine(
        proc=machine.proc,
        sys=machine.sys,
        shm=machine.shm,
        cgroup=ControlGroup.of(proc=machine.proc, sys=machine.sys),
    )
    found = values(Memory(limited), 0)
    assert found["", "mem.used"] == 3 << 30
    assert found["", "mem.used_pct"] == pytest.approx(37.5)
    assert found["", "mem.available"] == 5 << 30


def test_disks_are_counted_once(machine, tmp_path):
    for name in ("nvme0n1", "sda", "dm-0/slaves/nvme0n1", "loop0"):
        (machine.sys / "block" / name).mkdir(parents=True)
    write(machine.proc, {"diskstats": DISKSTATS.format(reads=100, sectors=1000, ms=10)})
    with_store = Machine(proc=machine.proc, sys=machine.sys, store=tmp_path, cgroup=machine.cgroup)
    disk = Disk(with_store)
    first = values(disk, 0)
    assert set(first) == {("", "disk.free_pct"), ("", "disk.free")}
    assert 0 <= first["", "disk.free_pct"] <= 100
    assert first["", "disk.free"] > 0
    write(machine.proc, {"diskstats": DISKSTATS.format(reads=150, sectors=3000, ms=410)})
    found = values(disk, 2 * SECOND)
    assert found["", "disk.iops"] == pytest.approx(25)
    assert found["", "disk.read_bytes"] == pytest.approx(2000 * 512 / 2)
    assert found["", "disk.write_bytes"] == 0
    assert found["", "disk.await"] == pytest.approx(8)


def test_without_a_disk_there_is_a_reason(machine):
    write(machine.proc, {"diskstats": ""})
    with pytest.raises(Unavailable, match="no disk"):
        Disk(machine)


def test_network_without_loopback_and_each_packet_once(machine):
    (machine.sys / "class/net/eth0/device").mkdir(parents=True)
    write(machine.proc, {"net/dev": NET.format(rx=1000, tx=100)})
    network = Network(machine)
    assert values(network, 0) == {}
    write(machine.proc, {"net/dev": NET.format(rx=5000, tx=300)})
    assert values(network, 2 * SECOND) == {("", "net.rx"): 2000, ("", "net.tx"): 100}
    write(machine.proc, {"net/dev": NET.format(rx=1, tx=1)})  # the interface was set up anew
    assert values(network, 3 * SECOND) == {}


def test_network_speed_and_what_was_sent_again(machine):
    (machine.sys / "class/net/eth0/device").mkdir(parents=True)
    write(machine.sys, {"class/net/eth0/speed": 25000})
    snmp = "Ip: Forwarding\nIp: 1\nTcp: ActiveOpens OutSegs RetransSegs\nTcp: 3 {} {}\n"
    write(machine.proc, {"net/dev": NET.format(rx=0, tx=0), "net/snmp": snmp.format(1000, 10)})
    network = Network(machine)
    assert values(network, 0) == {("", "net.link_speed"): 25e9 / 8}
    write(machine.proc, {"net/snmp": snmp.format(3000, 14)})
    found = values(network, 2 * SECOND)
    assert (found["", "net.segments"], found["", "net.retrans"]) == (1000, 2)
    write(machine.sys, {"class/net/eth0/speed": -1})  # as virtual interfaces say
    assert ("", "net.link_speed") not in values(network, 3 * SECOND)


def test_in_a_container_virtual_interfaces_are_the_job_s(machine):
    write(machine.proc, {"net/dev": NET.format(rx=0, tx=0)})
    network = Network(machine)
    values(network, 0)
    write(machine.proc, {"net/dev": NET.format(rx=100, tx=0)})
    assert values(network, SECOND)["", "net.rx"] == 100


def test_pressure_and_what_of_it_is_missing(machine):
    write(machine.proc, {"pressure/io": "some avg10=12.50 avg60=1 avg300=0 total=1\nfull avg10=3 avg60=0\n"})
    pressure = Pressure(machine)
    assert values(pressure, 0) == {("", "psi.io"): 12.5}
    assert [what for what, _ in pressure.missing] == ["psi.cpu", "psi.mem"]
    (machine.proc / "pressure/io").unlink()
    with pytest.raises(Unavailable, match="CONFIG_PSI"):
        Pressure(machine)


def test_processes_by_role(machine):
    processes = {
        "10/stat": stat_of(10, 1, ticks=100, pages=1000),
        "11/stat": stat_of(11, 10, ticks=50, pages=500, name="python) S 1 (x"),
        "12/stat": stat_of(12, 11, ticks=0, pages=1),
        "13/stat": stat_of(13, 10, state="Z"),
        "99/stat": stat_of(99, 1, ticks=77),
        "10/statm": "9999 1000 400 0 0 0 0\n",
        "11/statm": "9999 500 400 0 0 0 0\n",
        "12/statm": "1 1 1 0 0 0 0\n",
    }
    write(machine.proc, processes)
    machine.watched.roots = [10]
    machine.watched.roles = {10: "trainer", 11: "worker"}
    collector = Processes(machine)
    first = values(collector, 0)
    page = os.sysconf("SC_PAGE_SIZE")
    assert first["trainer", "proc.rss"] == 1000 * page
    assert first["worker", "proc.private"] == 100 * page
    assert first["other", "proc.count"] == 1
    assert not any(metric == "proc.cpu" for _, metric in first)
    write(machine.proc, {"10/stat": stat_of(10, 1, ticks=150), "11/stat": stat_of(11, 10, ticks=70)})
    found = values(collector, SECOND)
    tick = 100.0 / os.sysconf("SC_CLK_TCK")
    assert found["trainer", "proc.cpu"] == pytest.approx(50 * tick)
    assert found["worker", "proc.cpu"] == pytest.approx(20 * tick)


def test_real_processes_come_and_go(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    machine = Machine(watched=Watched(roots=[child.pid], roles={child.pid: "trainer"}))
    collector = Processes(machine)
    try:
        begun, spent = time.monotonic_ns(), psutil.Process(child.pid).cpu_times().user
        values(collector, begun)
        # However little of a busy machine it gets: what is told is what it got.
        until(lambda: psutil.Process(child.pid).cpu_times().user > spent + 0.5)
        found = values(collector, ended := time.monotonic_ns())
        spent = psutil.Process(child.pid).cpu_times().user - spent
    finally:
        child.kill()
        child.wait()
    assert found["trainer", "proc.count"] == found["trainer", "proc.threads"] == 1
    told = found["trainer", "proc.cpu"] / 100 * (ended - begun) / 1e9
    assert 0.4 < told < spent + 0.4, "in seconds; ticks are of 10 ms, and system time counts too"
    assert found["trainer", "proc.rss"] > found["trainer", "proc.private"] > 0
    assert values(collector, time.monotonic_ns()) == {}


def test_a_process_that_records_belongs_to_the_job_wherever_it_comes_from(machine):
    """Workers of a running Ray cluster do not descend from the command."""
    stats = {"10/stat": stat_of(10, 1), "50/stat": stat_of(50, 1), "51/stat": stat_of(51, 50)}
    write(machine.proc, {**stats, **{f"{pid}/statm": "1 1 0 0 0 0 0\n" for pid in (10, 50, 51)}})
    machine.watched.roots, machine.watched.roles = [10], {50: "trainer"}
    found = values(Processes(machine), 0)
    assert found["trainer", "proc.count"] == 1
    assert found["other", "proc.count"] == 2


def test_open_files_are_counted_when_the_tree_is_looked_up():
    code = "import os; kept = [open(os.devnull) for _ in range(100)]; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        machine = Machine(watched=Watched(roots=[child.pid], roles={child.pid: "trainer"}))
        collector = Processes(machine)
        assert values(collector, 0)["trainer", "proc.files"] == pytest.approx(103, abs=10)
        assert ("trainer", "proc.files") not in values(collector, SECOND)
        assert ("trainer", "proc.files") in values(collector, 3 * SECOND)
        child.kill()


def test_own_cost():
    own = Overhead(Machine())
    assert {metric for _, metric, _ in own.read(time.monotonic_ns())} == {"agent.rss"}
    sum(range(2_000_000))
    time.sleep(0.02)
    found = values(own, time.monotonic_ns())
    assert found["", "agent.cpu"] > 0
    assert found["", "agent.rss"] > 1 << 20
