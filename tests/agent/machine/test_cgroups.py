"""Limits and counters of control groups, on trees as the kernel shows them."""

from __future__ import annotations

from tests.agent.trees import cgroup1, cgroup2, write

from holter.agent.machine.cgroups import ControlGroup


def group(tmp_path, path_lines: str) -> ControlGroup:
    write(tmp_path / "proc", {"self/cgroup": path_lines})
    return ControlGroup.of(proc=tmp_path / "proc", sys=tmp_path / "sys")


def test_version_2_takes_the_tightest_limit_of_the_group_and_its_parents(tmp_path):
    cgroup2(tmp_path / "sys")
    found = group(tmp_path, "0::/kubepods/job\n")
    assert found.cpus() == 1.5
    assert found.memory_limit() == 8 << 30
    assert found.memory_used() == 3 << 30  # 5 GiB, of which 2 are page cache that can be given back
    assert found.memory_peak() == 7 << 30
    assert found.oom_kills() == 2
    assert found.throttling() == (100, 25)
    assert found.cpu_used_ns() == 3_000_000_000


def test_version_1_with_all_controllers(tmp_path):
    cgroup1(tmp_path / "sys")
    found = group(tmp_path, "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n")
    assert found.cpus() == 2.0
    assert found.memory_limit() == 4 << 30
    assert found.memory_used() == 2 << 30
    assert found.memory_peak() == 4 << 30
    assert found.oom_kills() == 3
    assert found.throttling() == (10, 5)
    assert found.cpu_used_ns() == 123456789


def test_in_a_container_the_group_is_mounted_at_the_root(tmp_path):
    cgroup1(tmp_path / "sys", group="")
    write(tmp_path / "sys/fs/cgroup", {"memory/memory.limit_in_bytes": 4 << 30})
    found = group(tmp_path, "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n")
    assert found.memory_limit() == 4 << 30
    assert found.cpus() == 2.0


def test_controllers_of_version_1_may_be_mounted_apart(tmp_path):
    write(
        tmp_path / "sys/fs/cgroup",
        {"cpu/cpu.cfs_quota_us": 100000, "cpu/cpu.cfs_period_us": 100000, "cpuacct/cpuacct.usage": 42},
    )
    found = group(tmp_path, "2:cpuacct:/\n1:cpu:/\n")
    assert found.cpus() == 1.0
    assert found.cpu_used_ns() == 42


def test_no_limit_is_none_not_a_number(tmp_path):
    write(
        tmp_path / "sys/fs/cgroup",
        {
            "memory/memory.limit_in_bytes": 9223372036854771712,
            "cpu/cpu.cfs_quota_us": -1,
            "cpu/cpu.cfs_period_us": 100000,
        },
    )
    found = group(tmp_path, "5:memory:/\n4:cpu:/\n")
    assert found.memory_limit() is None
    assert found.cpus() is None
    assert found.throttling() is None
    assert found.cpu_used_ns() is None


def test_without_control_groups_nothing_is_known(tmp_path):
    found = group(tmp_path, "")
    assert [found.cpus(), found.memory_limit(), found.memory_used(), found.oom_kills()] == [None] * 4


def test_this_machine_can_be_read():
    found = ControlGroup.of()
    assert found.memory_limit() is None or found.memory_limit() > 0
    assert found.cpus() is None or found.cpus() > 0
